// write_pages TEMPLATE: prints the template with its marker lines replaced by data from the
// programs' own tables, so that pages and completions cannot become outdated:
//   @DIRECTIVES@  each directive of freshet.toml, as man(7)
//   @SERVICE@     freshetd's options, as man(7)
//   @FLAGS@       the same for scripts/completion/freshetd, as shell
//   @OPTIONS@     freshetctl's global options, as man(7)
//   @COMMANDS@    each command of freshetctl with its options, as man(7)
//   @METRICS@     each metric of /metrics, as man(7)
//   @WORDS@       the commands for scripts/completion/freshetctl, as shell
// @VERSION@ is replaced anywhere in a line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/config/config_reference.h"
#include "fcgi/observe/metrics.h"
#include "fcgi/options.h"
#include "scripts/ctl/commands/command_line.h"

namespace freshet {
namespace {

// --- man(7)

// Converts the UTF-8 character at `at` to a roff escape. Moves `at` to its last byte.
std::string roff_escape(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const int continuation_bytes = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  unsigned code = first & (0x3fu >> continuation_bytes);
  for (int i = 0; i < continuation_bytes && at + 1 < text.size(); ++i)
    code = code << 6 | (static_cast<unsigned char>(text[++at]) & 0x3fu);
  std::array<char, 16> name{};
  std::snprintf(name.data(), name.size(), "\\[u%04X]", code);
  return name.data();
}

// Escapes text for roff: no character is special, and hyphens can be copied as such.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool line_begins = i == 0 || text[i - 1] == '\n';
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (static_cast<unsigned char>(c) >= 0x80)
      out += roff_escape(text, i);
    else if (c == '\n') {
      out += "\n.br\n";  // line breaks of help texts are intended
      while (i + 1 < text.size() && text[i + 1] == ' ') ++i;
    } else
      out += c;
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

// The TOML table of a directive.
std::string_view table_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? "At the top level" : name.substr(0, dot);
}

void write_directives(std::ostream& out, const CLI::App&) {
  const std::vector<DirectiveReference> rows = directive_references();
  std::vector<std::string_view> tables;
  for (const DirectiveReference& row : rows)
    if (std::find(tables.begin(), tables.end(), table_of(row.name)) == tables.end())
      tables.push_back(table_of(row.name));
  for (const std::string_view table : tables) {
    out << ".SS " << roff(table) << '\n';
    for (const DirectiveReference& row : rows) {
      if (table_of(row.name) != table) continue;
      out << ".TP\n" << bold(row.name) << " = " << roff(row.default_value) << '\n';
      out << roff(row.description) << ".\n.br\nValue: " << roff(row.accepted_values) << ".\n";
    }
  }
}

void write_metrics(std::ostream& out, const CLI::App&) {
  using observe::MetricType;
  for (const observe::MetricFamily& metric : observe::metric_families()) {
    const std::string_view end = metric.type == MetricType::kCounter ? "_total"
                                 : metric.type == MetricType::kInfo  ? "_info"
                                                                     : "";
    out << ".TP\n"
        << bold(std::string(metric.name).append(end)) << " (" << observe::metric_type_name(metric.type)
        << ")\n";
    out << roff(metric.help) << '\n';
    if (!metric.labels.empty()) out << ".br\nLabels: " << roff(metric.labels) << ".\n";
    if (!metric.alert.empty()) out << ".br\nAlert: " << roff(metric.alert) << ".\n";
  }
}

// The constraint that CLI11 appends to an option's type: "{a,b}", "INT in [1 - 100]", "POSITIVE".
// Empty if there is none.
std::string type_constraint(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  return colon == std::string::npos ? "" : type.substr(colon + 1);
}

// The values that the option's type lists, separated by spaces; empty if it lists none.
std::string listed_values(const CLI::Option& option) {
  std::string words = type_constraint(option);
  if (words.empty() || words.front() != '{') return {};
  words = words.substr(1, words.find('}') - 1);
  std::replace(words.begin(), words.end(), ',', ' ');
  return words;
}

bool has_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

void write_option(std::ostream& out, const CLI::Option& option) {
  if (option.get_positional()) {
    out << ".TP\n" << italic(option.get_name(true));
  } else {
    const std::string type = option.get_type_name();
    out << ".TP\n" << bold(option.get_name(false, true));
    if (has_value(option)) out << ' ' << italic(type.substr(0, type.find(':')));
  }
  out << '\n' << roff(option.get_description());
  const std::string check = type_constraint(option);
  if (const std::string values = listed_values(option); !values.empty())
    out << "; one of: " << roff(values);
  else if (const std::size_t at = check.find(" in ["); at != std::string::npos)
    out << "; range " << roff(check.substr(at + 4));
  if (!option.get_default_str().empty()) out << " (default " << roff(option.get_default_str()) << ')';
  out << ".\n";
}

void write_options(std::ostream& out, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) write_option(out, *option);
}

void write_commands(std::ostream& out, const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands({})) {
    out << ".SS " << roff(command->get_name());
    for (const CLI::Option* option : command->get_options())
      if (option->get_positional()) out << ' ' << roff(option->get_name(true));
    out << '\n' << roff(command->get_description()) << ".\n";
    for (const CLI::Option* option : command->get_options())
      if (option != command->get_help_ptr()) write_option(out, *option);
    if (!command->get_footer().empty()) out << ".PP\n" << roff(command->get_footer()) << '\n';
  }
}

// --- Completion

// The option's names as " --long -s"; empty if it is positional.
std::string option_names(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_lnames()) names += " --" + name;
  for (const std::string& name : option.get_snames()) names += " -" + name;
  return names;
}

void write_flags(std::ostream& out, const CLI::App& app) {
  out << "_freshetd_options='";
  for (const CLI::Option* option : app.get_options()) out << option_names(*option);
  out << "'\n";
}

// Writes the options of a command ("" for the global ones) as cases of two case statements: the
// words that may follow the command, and those that may follow an option ("?" for anything, such as
// a file).
void write_rows(std::ostream& words, std::ostream& values, const std::string& command, const CLI::App& app) {
  std::string all;
  for (const CLI::Option* option : app.get_options()) {
    std::string names = option_names(*option);
    const std::string listed = listed_values(*option);
    all += names;
    if (option->get_positional() || !has_value(*option)) continue;
    std::istringstream each(names);
    for (std::string name; each >> name;)
      values << "    '" << command << ' ' << name << "') echo '" << (listed.empty() ? "?" : listed)
             << "' ;;\n";
  }
  words << "    '" << command << "') echo '" << all.substr(all.empty() ? 0 : 1) << "' ;;\n";
}

void write_words(std::ostream& out, const CLI::App& app) {
  std::string names;
  std::ostringstream words;
  std::ostringstream values;
  write_rows(words, values, "", app);
  for (const CLI::App* command : app.get_subcommands({})) {
    names += (names.empty() ? "" : " ") + command->get_name();
    write_rows(words, values, command->get_name(), *command);
  }
  out << "_freshetctl_commands='" << names << "'\n\n"
      << "_freshetctl_options() {\n  case $1 in\n"
      << words.str() << "  esac\n}\n\n"
      << "_freshetctl_values() {\n  case $1 in\n"
      << values.str() << "  esac\n}\n";
}

// --- The template

struct Programs {
  CLI::App service{"", "freshetd"};
  CLI::App tool{"", "freshetctl"};
};

struct Marker {
  std::string_view line;
  void (*write)(std::ostream&, const CLI::App&);
  CLI::App Programs::*program = &Programs::tool;
};
constexpr std::array kMarkers{
    Marker{"@DIRECTIVES@", write_directives},
    Marker{"@METRICS@", write_metrics},
    Marker{"@SERVICE@", write_options, &Programs::service},
    Marker{"@FLAGS@", write_flags, &Programs::service},
    Marker{"@OPTIONS@", write_options},
    Marker{"@COMMANDS@", write_commands},
    Marker{"@WORDS@", write_words},
};

void write_line(std::ostream& out, std::string line, const Programs& programs) {
  for (const Marker& marker : kMarkers)
    if (line == marker.line) return marker.write(out, programs.*marker.program);
  constexpr std::string_view kVersion = "@VERSION@";
  if (const std::size_t at = line.find(kVersion); at != std::string::npos)
    line.replace(at, kVersion.size(), FRESHET_VERSION);
  out << line << '\n';
}

}  // namespace
}  // namespace freshet

int main(int argc, char** argv) {
  try {
    std::ifstream file(argc == 2 ? argv[1] : "");
    if (!file) {
      std::cerr << "write_pages: the template cannot be read\n";
      return 1;
    }
    freshet::Programs programs;
    freshet::Options options;
    freshet::add_options(programs.service, options);
    programs.tool.set_version_flag("-v,--version", FRESHET_VERSION);
    int status = 0;
    freshet::ctl::add_commands(programs.tool, status);
    for (std::string line; std::getline(file, line);) freshet::write_line(std::cout, line, programs);
    return std::cout.flush() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "write_pages: " << error.what() << '\n';
    return 1;
  }
}
