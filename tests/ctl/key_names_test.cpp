#include "scripts/ctl/check/key_names.h"

#include <catch2/catch.hpp>

#include "core/redis/keys.h"

using namespace freshet;
using namespace freshet::ctl;

TEST_CASE("removing the prefix from a key gives its name", "[ctl]") {
  for (const char* prefix : {"", "site1:"}) {
    const redis::Keys keys(prefix);
    const auto name = [&](const std::string& key) { return keys.strip_prefix(key).value_or("none"); };
    CAPTURE(prefix);
    CHECK(name(keys.article("a b")) == "hot:article:{a%20b}");
    CHECK(name(keys.session("a", "s")) == "hot:session:{a}:s");
    CHECK(name(keys.item("a")) == "item:{a}");
    CHECK(name(keys.partition(0).rank(hot::kEngagementModel)) == "hot:rank");
    CHECK(name(keys.partition(0).current_bucket(441345)) == "hot:current:441345");
    CHECK(name(keys.partition(0).current_bucket_index()) == "hot:current:index");
    CHECK(name(keys.partition(0).tagged_items("c++")) == "tag:c++");
  }
  CHECK_FALSE(redis::Keys("site1:").strip_prefix("other:hot:rank"));
}

TEST_CASE("strip_key_prefix returns the id after the prefix", "[ctl]") {
  CHECK(strip_key_prefix("hot:article:{12}", "hot:article:") == "12");
  CHECK(strip_key_prefix("hot:article:{a%3A%7Bb%7D}", "hot:article:") == "a:{b}");
  CHECK(strip_key_prefix("hot:current:12", "hot:current:") == "12");
  CHECK_FALSE(strip_key_prefix("hot:uv:{12}", "hot:article:"));
  CHECK_FALSE(strip_key_prefix("hot:uv:hll:{12}", "hot:uv:"));
}
