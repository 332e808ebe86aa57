#include "scripts/ctl/check/key_names.h"

#include <catch2/catch.hpp>

#include "core/redis/keys.h"

using namespace freshet;
using namespace freshet::ctl;

TEST_CASE("a key gives back the name it was built from, with any prefix", "[ctl]") {
  for (const char* prefix : {"", "site1:"}) {
    const redis::Keys keys(prefix);
    const auto plain = [&](const std::string& key) { return plain_name(key, prefix).value_or("none"); };
    CAPTURE(prefix);
    CHECK(plain(keys.pv("a b")) == "hot:pv:a b");
    CHECK(plain(keys.session("a", "s")) == "hot:session:a:s");
    CHECK(plain(keys.views("a")) == "hot:views:a");
    CHECK(plain(keys.item("a")) == "item:a");
    CHECK(plain(keys.rank()) == "hot:rank");
    CHECK(plain(keys.current(441345)) == "hot:current:441345");
    CHECK(plain(keys.current_index()) == "hot:current:index");
    CHECK(plain(keys.tag("c++")) == "tag:c++");
  }
  CHECK_FALSE(plain_name("other:hot:rank", "site1:"));
}

TEST_CASE("what follows the head of a name is its id", "[ctl]") {
  CHECK(after("hot:pv:12", "hot:pv:") == "12");
  CHECK_FALSE(after("hot:uv:12", "hot:pv:"));
  CHECK_FALSE(after("hot:uv:hll:12", "hot:uv:"));
}
