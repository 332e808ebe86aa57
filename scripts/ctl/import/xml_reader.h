// Records of an XML document, such as the entries of a feed, read one at a time.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::ctl {

// Modules of RSS, by the URIs of their namespaces.
inline constexpr std::string_view kContentSpace = "http://purl.org/rss/1.0/modules/content/";
inline constexpr std::string_view kDublinCoreSpace = "http://purl.org/dc/elements/1.1/";

struct XmlAttribute {
  std::string space, name, value;
};

// An element of a record. Texts are UTF-8, whatever the encoding of the document.
struct XmlElement {
  std::string space;  // the URI of the namespace; empty if there is none
  std::string name;   // without a prefix
  std::string base;   // the address that relative links refer to
  std::vector<XmlAttribute> attributes;
  // The text of this element without that of its children. For type="xhtml", as in Atom, it
  // contains the children as markup instead.
  std::string text;
  std::vector<XmlElement> children;

  // The attribute of no namespace; empty if there is none.
  std::string_view attribute(std::string_view attribute_name) const;
  std::string_view language() const;  // xml:lang
  const XmlElement* child(std::string_view child_space, std::string_view child_name) const;
  // The trimmed text of a child; empty if there is none.
  std::string_view child_text(std::string_view child_space, std::string_view child_name) const;
};

struct XmlVisitor {
  // The root without its children. An error ends reading.
  std::function<Result<void>(const XmlElement&)> root;
  // Selects the records among the elements below the root (depth 0) that are not in a record.
  std::function<bool(int depth, const XmlElement& start)> is_record;
  // A record with all its children. False ends reading without an error.
  std::function<bool(const XmlElement&)> record;
};

// Reads a document. Keeps one record in memory, up to 4 MiB of it, and what libxml2 buffers, at
// most 20 MB; the rest of a larger record is dropped. Reads no other file and no network address.
// Resolves the entities of HTML, but not those that the document declares. Errors: kInvalid
// "bad_xml", with the line in the detail; records before the error have been visited.
Result<void> read_xml(std::istream& in, std::string_view base, const XmlVisitor& visitor);

}  // namespace freshet::ctl
