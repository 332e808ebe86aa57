#include "scripts/ctl/import/xml_reader.h"

#include <libxml/HTMLparser.h>
#include <libxml/dict.h>
#include <libxml/parser.h>
#include <libxml/parserInternals.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>

#include "core/base/utf8.h"
#include "core/items/item_limits.h"
#include "scripts/ctl/import/source_text.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kXmlSpace = "http://www.w3.org/XML/1998/namespace";
constexpr std::size_t kMaxDepth = 256;
constexpr std::size_t kMaxRecordBytes = 4UL * 1024 * 1024;
constexpr std::size_t kElementBytes = 256;  // of an element without its texts
// libxml2 compares each attribute and each namespace of a tag with all before it.
constexpr std::size_t kMaxNameBytes = 128UL * 1024;
constexpr int kMaxNamespaces = 1000, kMaxAttributes = 1000;
// The first bytes of UTF-16 and UTF-32.
constexpr std::array<std::string_view, 5> kWideStarts{"\xFF\xFE", "\xFE\xFF", std::string_view("<\0", 2),
                                                      std::string_view("\0<", 2),
                                                      std::string_view("\0\0", 2)};
constexpr std::size_t kChunkBytes = 16UL * 1024;

std::string_view view_of(const xmlChar* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

tl::unexpected<Error> bad_xml(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_xml", {}, std::move(detail));
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
}

// The value of an attribute as libxml2 passes it: an ampersand is a reference, and of an entity of
// HTML only the first byte remains.
std::string attribute_value(std::string_view text) {
  constexpr std::string_view kAmpersand = "&#38;";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8::decode(text, at).size;
    if (text.substr(at).starts_with(kAmpersand)) {
      out += '&';
      at += kAmpersand.size();
    } else {
      out += size == 0 ? " " : text.substr(at, size);
      at += std::max<std::size_t>(size, 1);
    }
  }
  return out;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // by libxml2 2.14, without a replacement
// An entity of HTML as one of XML's own, whose content is inserted as text.
xmlEntity* html_entity(const xmlChar* name) {
  constexpr std::size_t kMaxBytes = 8;
  thread_local xmlEntity entity;
  thread_local std::array<xmlChar, kMaxBytes> content;
  const htmlEntityDesc* const known = htmlEntityLookup(name);
  if (known == nullptr) return nullptr;
  const int size = xmlCopyCharMultiByte(content.data(), static_cast<int>(known->value));
  content[static_cast<std::size_t>(size)] = 0;
  entity = {};
  entity.type = XML_ENTITY_DECL;
  entity.name = reinterpret_cast<const xmlChar*>(known->name);
  entity.etype = XML_INTERNAL_PREDEFINED_ENTITY;
  entity.content = content.data();
  entity.orig = content.data();
  entity.length = size;
  return &entity;
}
#pragma GCC diagnostic pop

void ignore_message(void*, const char*, ...) {}

class Parser {
 public:
  Parser(std::string_view base, const XmlVisitor& visitor) : visitor_(visitor), bases_{std::string(base)} {
    xmlSAXHandler handler{};  // stores no declarations and loads nothing: those members are null
    handler.initialized = XML_SAX2_MAGIC;
    handler.startElementNs = [](void* self, const xmlChar* name, const xmlChar* prefix, const xmlChar* space,
                                int namespaces, const xmlChar**, int attributes, int,
                                const xmlChar** values) {
      static_cast<Parser*>(self)->start_element(name, space == nullptr ? prefix : space, namespaces,
                                                attributes, values);
    };
    handler.endElementNs = [](void* self, const xmlChar*, const xmlChar*, const xmlChar*) {
      static_cast<Parser*>(self)->end_element();
    };
    handler.characters = [](void* self, const xmlChar* text, int size) {
      static_cast<Parser*>(self)->add_text(
          {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)});
    };
    handler.cdataBlock = handler.ignorableWhitespace = handler.characters;
    handler.getEntity = [](void*, const xmlChar* name) { return html_entity(name); };
    // Defaults would be added to each element.
    handler.attributeDecl = [](void* self, const xmlChar*, const xmlChar*, int, int, const xmlChar*,
                               xmlEnumerationPtr values) {
      xmlFreeEnumeration(values);
      static_cast<Parser*>(self)->stop("declares attributes in its DOCTYPE");
    };
    handler_ = handler;
    // libxml2 prints errors of encodings to stderr, whatever the options.
    xmlSetGenericErrorFunc(nullptr, ignore_message);
  }

  Result<void> read(std::istream& in) {
    std::string chunk(kChunkBytes, '\0');
    while (!stopped_ && read_chunk(in, chunk)) {
      if (!parser_) {
        if (auto ok = start(chunk); !ok) return ok;
      }
      if (!feed(chunk, false)) break;
    }
    if (!parser_) return bad_xml("is empty");
    if (!stopped_) feed({}, true);
    return outcome();
  }

 private:
  struct Free {
    void operator()(xmlParserCtxt* parser) const { xmlFreeParserCtxt(parser); }
  };

  static bool read_chunk(std::istream& in, std::string& chunk) {
    chunk.resize(kChunkBytes);
    in.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    chunk.resize(static_cast<std::size_t>(in.gcount()));
    return !chunk.empty();
  }

  Result<void> start(std::string& chunk) {
    // Blank lines before the declaration are common, and not allowed.
    const bool is_wide =
        std::ranges::any_of(kWideStarts, [&](std::string_view wide) { return chunk.starts_with(wide); });
    replaces_controls_ = !is_wide;
    if (!is_wide) {
      if (chunk.starts_with("\xEF\xBB\xBF")) chunk.erase(0, 3);
      chunk.erase(0, std::min(chunk.find_first_not_of(" \t\r\n"), chunk.size()));
      const std::string beginning = to_lower(chunk.substr(0, 16));
      if (beginning.starts_with("<!doctype html") || beginning.starts_with("<html"))
        return bad_xml("is an HTML page");
      if (!chunk.starts_with('<')) return bad_xml("is not XML");
    }
    // libxml2 detects the encoding by the first four bytes.
    const std::size_t detected = std::min<std::size_t>(chunk.size(), 4);
    parser_.reset(
        xmlCreatePushParserCtxt(&handler_, this, chunk.data(), static_cast<int>(detected), nullptr));
    if (!parser_) throw std::bad_alloc();
    chunk.erase(0, detected);
    xmlCtxtUseOptions(parser_.get(), XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    xmlDictSetLimit(parser_->dict, kMaxNameBytes);
    return {};
  }

  bool feed(std::string chunk, bool last) {
    if (replaces_controls_) {  // old posts contain them, and XML may not; ISO-2022-JP needs ESC
      constexpr char kEscape = 0x1B;
      std::ranges::replace_if(
          chunk,
          [](char c) {
            return static_cast<unsigned char>(c) < ' ' && c != '\t' && c != '\n' && c != '\r' && c != kEscape;
          },
          ' ');
    }
    const int code = xmlParseChunk(parser_.get(), chunk.data(), static_cast<int>(chunk.size()), last ? 1 : 0);
    // Errors that libxml2 does not count as those of a document that is not well-formed.
    if (code == XML_ERR_INVALID_ENCODING && !stopped_) stop("contains bytes that its encoding does not have");
    if (code == XML_ERR_NO_MEMORY && !stopped_) stop("has too many names");
    return parser_->wellFormed != 0 && !stopped_;
  }

  Result<void> outcome() const {
    if (failure_) return tl::unexpected(*failure_);
    if (stopped_) return {};
    if (parser_->wellFormed != 0) return {};
    const auto* const error = xmlCtxtGetLastError(parser_.get());
    if (error == nullptr || error->message == nullptr) return bad_xml("is not well-formed");
    const std::string message = one_line(error->message);
    const bool is_huge = message.find("Huge input lookup") != std::string::npos;
    return bad_xml("line " + std::to_string(error->line) + ": " +
                   (is_huge ? "a tag, comment or CDATA section is larger than 10 MB" : message));
  }

  void stop(std::string reason) {
    if (!failure_) failure_ = bad_xml(line() + std::move(reason)).value();
    end();
  }
  void end() {
    stopped_ = true;
    xmlStopParser(parser_.get());
  }
  std::string line() const { return "line " + std::to_string(xmlSAX2GetLineNumber(parser_.get())) + ": "; }

  // An undeclared prefix is taken for the namespace, so that its names differ from those without.
  void start_element(const xmlChar* name, const xmlChar* space, int namespaces, int count,
                     const xmlChar** values) {
    if (stopped_) return;
    namespaces_ += namespaces;
    open_namespaces_.push_back(namespaces);
    if (bases_.size() > kMaxDepth) return stop("is nested too deeply");
    if (namespaces_ > kMaxNamespaces || count > kMaxAttributes) return stop("has too many attributes");
    XmlElement element = element_of(name, space, count, values);
    bases_.push_back(element.base);
    if (!open_.empty()) {
      open_child(std::move(element));
    } else if (const int depth = static_cast<int>(bases_.size()) - 2; depth == 0) {
      if (auto ok = visitor_.root(element); !ok) {
        failure_ = std::move(ok).error();
        end();
      }
    } else if (visitor_.is_record(depth, element)) {
      record_ = std::move(element);
      record_bytes_ = 0;
      open_.push_back(&record_);
      markup_depth_ = 0;
    }
  }

  XmlElement element_of(const xmlChar* name, const xmlChar* space, int count, const xmlChar** values) const {
    XmlElement element{
        .space = std::string(view_of(space)), .name = std::string(view_of(name)), .base = bases_.back()};
    for (int i = 0; i < count; ++i, values += 5) {  // name, prefix, URI, begin and end of the value
      const std::string value = attribute_value(utf8::prefix(
          {reinterpret_cast<const char*>(values[3]), static_cast<std::size_t>(values[4] - values[3])},
          items::kMaxTextBytes));
      const std::string_view attribute_space = view_of(values[2]), attribute_name = view_of(values[0]);
      if (attribute_space == kXmlSpace && attribute_name == "base") {
        if (auto base = resolve_url(element.base, value); !base.empty()) element.base = std::move(base);
      }
      element.attributes.push_back({std::string(attribute_space), std::string(attribute_name), value});
    }
    return element;
  }

  // Adds a child to the innermost open element, or its markup. Leaves out elements beyond the limit
  // of a record.
  void open_child(XmlElement element) {
    if (markup_depth_ > 0) {
      ++markup_depth_;
      return add_start_tag(element);
    }
    std::size_t bytes = kElementBytes + element.name.size() + element.space.size() + element.base.size();
    for (const XmlAttribute& each : element.attributes)
      bytes += each.name.size() + each.space.size() + each.value.size() + sizeof(XmlAttribute);
    record_bytes_ += bytes;
    XmlElement* const parent = open_.back();
    if (record_bytes_ > kMaxRecordBytes || parent == nullptr) return open_.push_back(nullptr);
    parent->children.push_back(std::move(element));
    open_.push_back(&parent->children.back());
    if (open_.back()->attribute("type") == "xhtml") markup_depth_ = 1;
  }

  void add_start_tag(const XmlElement& element) {
    std::string tag = "<" + element.name;
    for (const XmlAttribute& each : element.attributes) {
      if (!each.space.empty()) continue;
      tag += " " + each.name + "=\"";
      append_escaped(tag, each.value);
      tag += '"';
    }
    markup_names_.push_back(element.name);
    append(tag + ">");
  }

  void end_element() {
    if (stopped_) return;
    bases_.pop_back();
    namespaces_ -= open_namespaces_.back();
    open_namespaces_.pop_back();
    if (open_.empty()) return;
    if (markup_depth_ > 1) {
      append("</" + markup_names_.back() + ">");
      markup_names_.pop_back();
    }
    if (markup_depth_ > 0 && --markup_depth_ > 0) return;
    open_.pop_back();
    if (open_.empty() && !visitor_.record(record_)) end();
  }

  void add_text(std::string_view text) {
    if (stopped_ || open_.empty()) return;
    if (markup_depth_ == 0) return append(text);
    std::string escaped;
    append_escaped(escaped, text);
    append(escaped);
  }

  void append(std::string_view text) {
    XmlElement* const element = open_.back();
    if (element == nullptr || record_bytes_ > kMaxRecordBytes) return;
    // One byte more, so that the text is cut at a character when it is handed over.
    const std::size_t left =
        items::kMaxTextBytes + 4 - std::min(element->text.size(), items::kMaxTextBytes + 4);
    text = text.substr(0, left);
    record_bytes_ += text.size();
    element->text += text;
  }

  const XmlVisitor& visitor_;
  xmlSAXHandler handler_{};
  std::unique_ptr<xmlParserCtxt, Free> parser_;
  bool replaces_controls_ = false;
  bool stopped_ = false;
  std::optional<Error> failure_;

  std::vector<std::string> bases_;  // that of the document, then those of the open elements
  std::vector<int> open_namespaces_;
  int namespaces_ = 0;
  XmlElement record_;
  std::size_t record_bytes_ = 0;
  std::vector<XmlElement*> open_;  // the record and its open children; null: left out
  // 1 in an element whose children become markup, and more in those.
  int markup_depth_ = 0;
  std::vector<std::string> markup_names_;
};

}  // namespace

std::string_view XmlElement::attribute(std::string_view attribute_name) const {
  for (const XmlAttribute& each : attributes) {
    if (each.space.empty() && each.name == attribute_name) return each.value;
  }
  return {};
}

std::string_view XmlElement::language() const {
  for (const XmlAttribute& each : attributes) {
    if (each.space == kXmlSpace && each.name == "lang") return each.value;
  }
  return {};
}

const XmlElement* XmlElement::child(std::string_view child_space, std::string_view child_name) const {
  const auto found = std::ranges::find_if(
      children, [&](const XmlElement& each) { return each.name == child_name && each.space == child_space; });
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::child_text(std::string_view child_space, std::string_view child_name) const {
  const XmlElement* const found = child(child_space, child_name);
  return found == nullptr ? std::string_view() : trimmed(found->text);
}

Result<void> read_xml(std::istream& in, std::string_view base, const XmlVisitor& visitor) {
  return Parser(base, visitor).read(in);
}

}  // namespace freshet::ctl
