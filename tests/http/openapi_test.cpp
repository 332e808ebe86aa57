// Checks the OpenAPI document against the tables it describes, in both directions: routes.cpp and
// the problem types of problem.cpp.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "core/base/json.h"
#include "fcgi/handlers/routes.h"
#include "fcgi/http/problem.h"

using namespace freshet;

namespace {

constexpr json::Limits kLimits{32, 100'000};
constexpr std::array kMethods{"get", "head", "post", "put", "delete", "options", "patch"};

struct OpenApi {
  std::string text;
  json::Document document;
  OpenApi() {
    std::ifstream file(std::string(FRESHET_SOURCE_DIR) + "/nginx/html/openapi.json");
    text.assign(std::istreambuf_iterator<char>(file), {});
    REQUIRE(document.parse(text, kLimits));
  }
  json::Value root() const { return document.root(); }
};

std::set<std::string> names_in(const std::string& path) {
  static const std::regex kName("\\{([^}]+)\\}");
  std::set<std::string> names;
  for (std::sregex_iterator at(path.begin(), path.end(), kName), end; at != end; ++at) names.insert((*at)[1]);
  return names;
}

bool is_method(std::string_view name) { return std::ranges::find(kMethods, name) != kMethods.end(); }

// Method, path and zone of every route, and whether it takes a body, one per row.
std::set<std::string> table() {
  static constexpr std::array kNames{"get", "head", "post", "put", "delete", "options"};
  std::set<std::string> rows;
  Settings settings;
  settings.track.pixel = true;
  for (const auto& route : handlers::route_table(settings)) {
    const char* const zone = route.zone == Zone::kPublic ? "public" : "internal";
    rows.insert(std::string(kNames.at(static_cast<std::size_t>(route.method))) + " " +
                std::string(route.path) + " " + zone + (route.body_limit > 0 ? " body" : ""));
  }
  return rows;
}

// Collects every string in the enumeration of a problem's member "code".
void collect_codes(json::Value value, std::set<std::string>& out) {
  for (const json::Value each : value["code"]["enum"].elements()) out.emplace(each.text());
  for (const auto& [name, inner] : value.members()) collect_codes(inner, out);
  for (const json::Value each : value.elements()) collect_codes(each, out);
}

}  // namespace

TEST_CASE("the OpenAPI document has exactly the methods, paths, zones and bodies of the route table",
          "[openapi]") {
  const OpenApi api;
  std::set<std::string> described;
  for (const auto& [path, operations] : api.root()["paths"].members()) {
    for (const auto& [method, operation] : operations.members()) {
      INFO(method << " " << path);
      REQUIRE(is_method(method));
      REQUIRE(operation["x-freshet-zone"].is_string());
      described.insert(std::string(method) + " " + std::string(path) + " " +
                       std::string(operation["x-freshet-zone"].text()) +
                       (operation["requestBody"].is_object() ? " body" : ""));
    }
  }
  CHECK(described == table());
}

namespace {

std::set<std::string> split(std::string_view names) {
  std::istringstream words{std::string(names)};
  return {std::istream_iterator<std::string>(words), {}};
}

// The members of a schema, which may refer to others.
void collect_members(json::Value root, json::Value schema, std::set<std::string>& out) {
  for (const auto& [name, value] : schema["properties"].members()) out.emplace(name);
  for (const json::Value part : schema["allOf"].elements()) collect_members(root, part, out);
  if (schema["$ref"].is_string()) {
    const std::string_view name =
        schema["$ref"].text().substr(std::string_view("#/components/schemas/").size());
    collect_members(root, root["components"]["schemas"][name], out);
  }
}

}  // namespace

TEST_CASE("the OpenAPI document describes the parameters and members that routes know", "[openapi]") {
  // Former names, and those that are refused with a reason of their own.
  const std::set<std::string> undescribed{"at", "views.base", "views.pv_weight", "views.uv_weight"};
  const OpenApi api;
  Settings settings;
  settings.track.pixel = true;
  for (const auto& route : handlers::route_table(settings)) {
    std::string method(method_name(route.method));
    std::ranges::transform(method, method.begin(), [](char c) { return static_cast<char>(c | 0x20); });
    const json::Value operation = api.root()["paths"][route.path][method];
    INFO(method << " " << route.path);
    std::set<std::string> parameters, members;
    for (const json::Value each : operation["parameters"].elements()) {
      if (each["in"].text() == "query") parameters.emplace(each["name"].text());
    }
    for (const auto& [type, content] : operation["requestBody"]["content"].members())
      collect_members(api.root(), content["schema"], members);
    auto known = split(route.parameters);
    if (route.path == "/api/hot/preview")
      std::erase_if(known, [&](auto& name) { return undescribed.contains(name); });
    CHECK(parameters == known);
    CHECK(members == split(route.members));
  }
}

TEST_CASE("each operation of the OpenAPI document describes its path parameters and has a unique id",
          "[openapi]") {
  const OpenApi api;
  std::set<std::string> ids;
  for (const auto& [path, operations] : api.root()["paths"].members()) {
    for (const auto& [method, operation] : operations.members()) {
      INFO(method << " " << path);
      std::set<std::string> described;
      for (const json::Value parameter : operation["parameters"].elements()) {
        if (parameter["in"].text() == "path") described.emplace(parameter["name"].text());
      }
      CHECK(described == names_in(std::string(path)));
      CHECK(ids.emplace(operation["operationId"].text()).second);
    }
  }
}

TEST_CASE("the OpenAPI document lists exactly the codes of problems that are served", "[openapi]") {
  const OpenApi api;
  std::set<std::string> codes;
  for (const http::ProblemType& type : http::problem_types()) codes.emplace(type.code);
  std::set<std::string> listed;
  const json::Value schemas = api.root()["components"]["schemas"];
  for (const json::Value code : schemas["Code"]["enum"].elements()) listed.emplace(code.text());
  CHECK(listed == codes);

  std::set<std::string> used;
  collect_codes(api.root()["paths"], used);
  collect_codes(api.root()["components"]["responses"], used);
  std::set<std::string> unknown;
  std::ranges::set_difference(used, codes, std::inserter(unknown, unknown.end()));
  CHECK(unknown.empty());
  CHECK(used.size() > 25);
}

TEST_CASE("the OpenAPI document has the version of the service", "[openapi]") {
  const OpenApi api;
  CHECK(api.root()["info"]["version"].text() == FRESHET_VERSION);
}
