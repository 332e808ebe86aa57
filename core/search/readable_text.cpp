#include "core/search/readable_text.h"

#include <libxml/HTMLparser.h>
#include <libxml/dict.h>
#include <md4c.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>

#include "core/base/utf8.h"

namespace freshet::search {
namespace {

constexpr int kMaxDepth = 256;
#if LIBXML_VERSION < 21400
// libxml2 compares each attribute of a tag with all before it. Names that do not fit are ignored.
// Later versions hash the names, and stop at the first that does not fit.
constexpr std::size_t kMaxNameBytes = 4096;
#endif
// md4c 0.4 copies a reference's target for each link to it. A Markdown text beyond this is read as
// plain text.
constexpr std::size_t kMaxLinkBytes = 4UL * 1024 * 1024;

constexpr std::string_view kRoot = "freshet-text";  // the element around the whole text
// Elements that do not end a word. The others, known or not, do.
constexpr std::array<std::string_view, 46> kInlineElements{
    kRoot,      "a",    "abbr",   "acronym", "b",     "bdi",  "bdo",    "big",    "cite",  "code",
    "data",     "del",  "dfn",    "em",      "font",  "i",    "ins",    "kbd",    "label", "link",
    "mark",     "meta", "nobr",   "output",  "q",     "rb",   "rp",     "rt",     "rtc",   "ruby",
    "s",        "samp", "script", "slot",    "small", "span", "strike", "strong", "style", "sub",
    "template", "time", "tt",     "u",       "var",   "wbr"};
// Elements whose text is not shown, or is the reading of the text before it.
constexpr std::array<std::string_view, 6> kSkippedElements{"script", "style", "template", "rt", "rp", "rtc"};

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view view_of(const xmlChar* text) { return reinterpret_cast<const char*>(text); }

#if LIBXML_VERSION < 21400  // later versions do this themselves
// Adds the semicolons that HTML's oldest entities may lack, such as "&nbsp" and "&eacute", since
// libxml2 takes these for text without it.
std::string complete_entities(std::string_view html) {
  constexpr std::size_t kMaxNameLength = 6;
  constexpr unsigned kLastOfLatin1 = 255;
  const auto is_alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = html.find('&'); at != html.npos; at = html.find('&', at + 1)) {
    const auto name = html.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const auto end = std::find_if_not(name, html.end(), is_alphanumeric);
    if (end != html.end() && *end == ';') continue;
    for (std::size_t length = std::min<std::size_t>(kMaxNameLength, static_cast<std::size_t>(end - name));
         length > 0; --length) {
      const std::string prefix(name, name + static_cast<std::ptrdiff_t>(length));
      const htmlEntityDesc* const entity = htmlEntityLookup(reinterpret_cast<const xmlChar*>(prefix.c_str()));
      if (entity == nullptr || entity->value > kLastOfLatin1) continue;
      out.append(html, copied, at + 1 + length - copied).push_back(';');
      copied = at + 1 + length;
      break;
    }
  }
  return out.append(html.substr(copied));
}
#else
std::string_view complete_entities(std::string_view html) { return html; }
#endif

// Appends the readable text of HTML to a string.
class HtmlReader {
 public:
  explicit HtmlReader(std::string& out) : out_(out) { start(); }

  void read(std::string_view html) {
    while (!html.empty()) {
      // One tag at a time, so that the parser can be replaced where the nesting gets too deep.
      const std::size_t tag = html.find('>');
      const std::size_t size = tag == std::string_view::npos ? html.size() : tag + 1;
      feed(html.substr(0, size));
      html.remove_prefix(size);
      if (depth_ > kMaxDepth) flatten();
    }
    finish();
  }

 private:
  struct Free {
    void operator()(xmlParserCtxt* parser) const { htmlFreeParserCtxt(parser); }
  };

  void start() {
    xmlSAXHandler handler{};  // no external subset, no entities, no errors: those members are null
    handler.startElement = [](void* self, const xmlChar* name, const xmlChar** attributes) {
      static_cast<HtmlReader*>(self)->start_element(view_of(name), attributes);
    };
    handler.endElement = [](void* self, const xmlChar* name) {
      static_cast<HtmlReader*>(self)->end_element(view_of(name));
    };
    handler.characters = [](void* self, const xmlChar* text, int size) {
      static_cast<HtmlReader*>(self)->add_text(
          {reinterpret_cast<const char*>(text), static_cast<std::size_t>(size)});
    };
    handler.ignorableWhitespace = handler.characters;
    parser_.reset(htmlCreatePushParserCtxt(&handler, this, nullptr, 0, nullptr, XML_CHAR_ENCODING_UTF8));
    if (!parser_) throw std::bad_alloc();
    htmlCtxtUseOptions(parser_.get(), HTML_PARSE_RECOVER | HTML_PARSE_NONET | HTML_PARSE_NOIMPLIED |
                                          HTML_PARSE_IGNORE_ENC | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING);
#if LIBXML_VERSION < 21400
    xmlDictSetLimit(parser_->dict, kMaxNameBytes);
#endif
    // Without this element, the parser starts a paragraph at each text and stops after </body>.
    feed("<" + std::string(kRoot) + ">");
  }
  void feed(std::string_view html) {
    htmlParseChunk(parser_.get(), html.data(), static_cast<int>(html.size()), 0);
  }
  void finish() { htmlParseChunk(parser_.get(), nullptr, 0, 1); }  // ends all open elements

  // Continues with a new parser, for which no element is open: libxml2 searches its open elements
  // at each end tag.
  void flatten() {
    const bool skips = skipped_from_ > 0, word_ended = word_ended_;
    finish();
    depth_ = skipped_from_ = 0;
    word_ended_ = word_ended;
    start();
    if (skips) feed("<" + skipped_element_ + ">");
  }

  void start_element(std::string_view name, const xmlChar** attributes) {
    ++depth_;
    if (skipped_from_ == 0 && is_one_of(name, kSkippedElements)) {
      skipped_from_ = depth_;
      skipped_element_ = name;
    }
    if (!is_one_of(name, kInlineElements)) end_word();
    if (name != "img" || attributes == nullptr) return;
    for (; attributes[0] != nullptr; attributes += 2) {
      if (view_of(attributes[0]) == "alt" && attributes[1] != nullptr) add_text(view_of(attributes[1]));
    }
  }
  void end_element(std::string_view name) {
    if (!is_one_of(name, kInlineElements)) end_word();
    if (depth_ == skipped_from_) skipped_from_ = 0;
    --depth_;
  }
  void add_text(std::string_view text) {
    if (skipped_from_ > 0 || text.empty()) return;
    if (word_ended_ && !out_.empty()) out_ += '\n';
    word_ended_ = false;
    out_.append(text);
  }
  void end_word() {
    if (skipped_from_ == 0) word_ended_ = true;
  }

  std::string& out_;
  std::unique_ptr<xmlParserCtxt, Free> parser_;
  int depth_ = 0, skipped_from_ = 0;  // skipped_from_: depth of the outermost skipped element, or 0
  std::string skipped_element_;
  bool word_ended_ = false;
};

// Converts Markdown to HTML without its formatting.
class MarkdownReader {
 public:
  // Returns false if the links exceed kMaxLinkBytes; html() is incomplete then.
  bool read(std::string_view markdown) {
    MD_PARSER parser{};
    parser.flags = MD_FLAG_STRIKETHROUGH;
    parser.enter_block = [](MD_BLOCKTYPE, void*, void* self) {
      static_cast<MarkdownReader*>(self)->end_word();
      return 0;
    };
    parser.leave_block = [](MD_BLOCKTYPE, void*, void*) { return 0; };
    parser.enter_span = [](MD_SPANTYPE type, void* detail, void* self) {
      return static_cast<MarkdownReader*>(self)->enter_span(type, detail) ? 0 : -1;
    };
    parser.leave_span = [](MD_SPANTYPE type, void*, void* self) {
      if (type == MD_SPAN_IMG) static_cast<MarkdownReader*>(self)->end_word();
      return 0;
    };
    parser.text = [](MD_TEXTTYPE type, const MD_CHAR* text, MD_SIZE size, void* self) {
      static_cast<MarkdownReader*>(self)->add(type, {text, size});
      return 0;
    };
    return md_parse(markdown.data(), static_cast<MD_SIZE>(markdown.size()), &parser, this) == 0;
  }
  const std::string& html() const { return html_; }

 private:
  bool enter_span(MD_SPANTYPE type, const void* detail) {
    if (type == MD_SPAN_A) {
      const auto& link = *static_cast<const MD_SPAN_A_DETAIL*>(detail);
      link_bytes_ += link.href.size + link.title.size;
    } else if (type == MD_SPAN_IMG) {
      const auto& image = *static_cast<const MD_SPAN_IMG_DETAIL*>(detail);
      link_bytes_ += image.src.size + image.title.size;
      end_word();
    }
    return link_bytes_ <= kMaxLinkBytes;
  }
  void add(MD_TEXTTYPE type, std::string_view text) {
    switch (type) {
      case MD_TEXT_HTML:
      case MD_TEXT_ENTITY:
        html_.append(text);
        break;
      case MD_TEXT_BR:
        end_word();
        break;
      default:
        escape(text);
    }
  }
  void escape(std::string_view text) {
    for (const char c : text) {
      if (c == '<')
        html_.append("&lt;");
      else if (c == '&')
        html_.append("&amp;");
      else
        html_ += c;
    }
  }
  void end_word() {
    if (!html_.ends_with("<br>")) html_.append("<br>");
  }

  std::string html_;
  std::size_t link_bytes_ = 0;
};

}  // namespace

std::string_view readable_text(std::string_view text, items::TextFormat format, std::string& buffer) {
  if (format == items::TextFormat::kPlain || text.empty() || !utf8::is_valid(text)) return text;
  buffer.clear();
  buffer.reserve(text.size());
  if (format == items::TextFormat::kHtml) {
    HtmlReader(buffer).read(complete_entities(text));
    return buffer;
  }
  MarkdownReader markdown;
  if (!markdown.read(text)) return text;
  HtmlReader(buffer).read(markdown.html());
  return buffer;
}

}  // namespace freshet::search
