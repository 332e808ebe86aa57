// Readable text of plain text, HTML and Markdown, also of input that is meant to be expensive.
#include "core/search/readable_text.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/utf8.h"

using namespace freshet;
using items::TextFormat;
using Words = std::vector<std::string>;

namespace {

std::string readable(std::string_view text, TextFormat format) {
  std::string buffer;
  return std::string(search::readable_text(text, format, buffer));
}

Words words_of(std::string_view text, TextFormat format) {
  std::istringstream words(readable(text, format));
  Words out;
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}
Words html(std::string_view text) { return words_of(text, TextFormat::kHtml); }
Words markdown(std::string_view text) { return words_of(text, TextFormat::kMarkdown); }

std::string repeated(std::string_view text, std::size_t bytes) {
  std::string out;
  while (out.size() + text.size() <= bytes) out += text;
  return out;
}

constexpr std::size_t kMaxText = 256UL * 1024;

}  // namespace

TEST_CASE("plain text is itself, whatever it looks like", "[readable]") {
  for (const std::string text : {"", "<b>bold</b> &amp; **strong**", "北京\n天气"}) {
    std::string buffer;
    const std::string_view out = search::readable_text(text, TextFormat::kPlain, buffer);
    CHECK(out == text);
    CHECK(out.data() == text.data());
    CHECK(buffer.empty());
  }
}

TEST_CASE("HTML: inline elements join, and all others end a word", "[readable]") {
  CHECK(html("你<b>好</b>吗") == Words{"你好吗"});
  CHECK(html("<p>a</p><p>b</p>") == Words{"a", "b"});
  CHECK(html("un<em>believ</em><a href='/x'>able</a>") == Words{"unbelievable"});
  CHECK(html("a<br>b<hr/>c<div>d</div>e<ul><li>f<li>g</ul>h") ==
        Words{"a", "b", "c", "d", "e", "f", "g", "h"});
  CHECK(html("<table><tr><td>a<td>b<tr><th>c</table>") == Words{"a", "b", "c"});
  CHECK(html("<article>a</article><section>b</section><unknown>c</unknown>d") == Words{"a", "b", "c", "d"});
  CHECK(html("你<wbr>好<span class=x>吗</span>") == Words{"你好吗"});
  CHECK(html("H<sub>2</sub>O is water<sup>1</sup>") == Words{"H2O", "is", "water", "1"});
  CHECK(html("one <b>two</b> three") == Words{"one", "two", "three"});
  CHECK(html("<B>A</B><P>B") == Words{"A", "B"});
}

TEST_CASE("HTML: what no reader sees is left out", "[readable]") {
  CHECK(html("a<script>var b = '<p>c</p>';</script>d") == Words{"ad"});
  CHECK(html("<style>p { color: red }</style>a") == Words{"a"});
  CHECK(html("a<!-- b <p>c</p> -->d") == Words{"ad"});
  CHECK(html("a <template><p>b<template>c</template></p>d</template> e") == Words{"a", "e"});
  CHECK(html("<a href=\"https://example.org/b\" title=\"c\" class=d data-e=f>a</a>") == Words{"a"});
  CHECK(html("<!DOCTYPE html><html lang=en><head><meta charset=big5><title>a</title></head>"
             "<body class=b>你好</body></html>") == Words{"a", "你好"});
  CHECK(html("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby>だ") == Words{"漢字だ"});
  CHECK(html("<?php echo 1 ?>a<![CDATA[b]]>").front().starts_with("a"));
}

TEST_CASE("HTML: the alternative text of an image is read, its other attributes are not", "[readable]") {
  CHECK(html("a<img src=b.png alt=\"c &amp; d\" title=e>f") == Words{"a", "c", "&", "d", "f"});
  CHECK(html("<img alt><img src=x>a") == Words{"a"});
}

TEST_CASE("HTML: entities are characters", "[readable]") {
  CHECK(readable("Hello&nbsp;world", TextFormat::kHtml).find("nbsp") == std::string::npos);
  CHECK(readable("Hello&nbsp;world", TextFormat::kHtml).starts_with("Hello\xC2\xA0world"));
  CHECK(readable("Hello&nbsp world", TextFormat::kHtml).starts_with("Hello\xC2\xA0 world"));
  CHECK(readable("caf&eacutes &lt&amp&copy2026 a&b &notin; &nosuch &", TextFormat::kHtml)
            .starts_with("cafés <&©2026 a&b ∉ &nosuch &"));
  CHECK(html("caf&eacute; &#x4F60;&#22909; AT&amp;T &lt;b&gt; &copy;") ==
        Words{"café", "你好", "AT&T", "<b>", "©"});
  CHECK(html("a & b &unknown; &") == Words{"a", "&", "b", "&unknown;", "&"});
  CHECK(html("&#0;&#xD800;&#x110000;a") == Words{"a"});
}

TEST_CASE("HTML: broken markup loses no text after it", "[readable]") {
  CHECK(html("a < b, 3<4") == Words{"a", "<", "b,", "3<4"});
  CHECK(html("</p>a</b></div></body>b</html>c<body>d</body>e") == Words{"abc", "d", "e"});
  CHECK(html("<b><i>a</b></i>b") == Words{"ab"});
  CHECK(html("<p>a<p>b<div>c") == Words{"a", "b", "c"});
  CHECK(html("a\xEF\xBF\xBE\x01z") == Words{"az"});
  CHECK(html(std::string_view("a\0b\0<b>c</b>", 12)) == Words{"a", "b", "c"});
  CHECK(html(std::string_view("a<b c\0d>e</b> f", 16)).back() == "f");
  CHECK(markdown(std::string_view("a\0 **b**", 9)).back() == "b");
  CHECK(html("a <script>b") == Words{"a"});
  CHECK(html("a <script>b <style>c") == Words{"a"});
  CHECK(html("a <b c=\"d") == Words{"a"});
  CHECK(html("a <!-- b") == Words{"a"});
}

TEST_CASE("a text that is not UTF-8 is plain", "[readable]") {
  CHECK(readable("<b>a\xFF</b>", TextFormat::kHtml) == "<b>a\xFF</b>");
  CHECK(readable("**a\xC3", TextFormat::kMarkdown) == "**a\xC3");
}

TEST_CASE("Markdown: emphasis joins, blocks end a word", "[readable]") {
  CHECK(markdown("你**好**吗") == Words{"你好吗"});
  CHECK(markdown("un*believ*able ~~gone~~ `co`de") == Words{"unbelievable", "gone", "code"});
  CHECK(markdown("# a\nb\n\n- c\n- d\n\n> e\n\n1. f") == Words{"a", "b", "c", "d", "e", "f"});
  CHECK(markdown("a  \nb\\\nc\nd") == Words{"a", "b", "c", "d"});
  CHECK(markdown("```cpp\nif (a<b && c) {}\n```\n") == Words{"if", "(a<b", "&&", "c)", "{}"});
  CHECK(markdown("2 * 3 * 4 snake_case_name \\*x\\*") ==
        Words{"2", "*", "3", "*", "4", "snake_case_name", "*x*"});
}

TEST_CASE("Markdown: links and images are their texts", "[readable]") {
  CHECK(markdown("see [the *site*](https://example.org/path \"title\")s.") == Words{"see", "the", "sites."});
  CHECK(markdown("a![b](c.png)d") == Words{"a", "b", "d"});
  CHECK(markdown("[a][r] b\n\n[r]: https://example.org 'c'") == Words{"a", "b"});
  CHECK(markdown("<https://example.org/a>") == Words{"https://example.org/a"});
}

TEST_CASE("Markdown: its HTML and entities are read as HTML", "[readable]") {
  CHECK(markdown("你<b>好</b>吗 &eacute;&amp;&lt;") == Words{"你好吗", "é&<"});
  CHECK(markdown("<div class=\"x\">\na<br>b\n</div>\n\nc <!-- d --> e") == Words{"a", "b", "c", "e"});
  CHECK(markdown("<script>\nvar a;\n\nvar b;\n</script>\n\nc") == Words{"c"});
  CHECK(markdown("a `<b>` &amp;lt; \\<i>") == Words{"a", "<b>", "&lt;", "<i>"});
}

TEST_CASE("elements nested deeper than 256 are read as if they were not nested", "[readable]") {
  for (const char* tag : {"b", "div"}) {
    std::string nested;
    Words expected;
    for (int i = 0; i < 1000; ++i) {
      expected.push_back("w" + std::to_string(i));
      nested += std::string("<") + tag + " title='>'> " + expected.back();
    }
    for (int i = 1000; i < 2000; ++i) {
      expected.push_back("w" + std::to_string(i));
      nested += std::string("</") + tag + "> " + expected.back();
    }
    CHECK(html(nested) == expected);
  }
  // No word begins or ends where the nesting gets too deep.
  CHECK(html(repeated("<b>你</b><i>", 13UL * 1000)) == Words{repeated("你", 3UL * 1000)});
  CHECK(html("<div>" + repeated("<b>你", 6UL * 1000)) == Words{repeated("你", 3UL * 1000)});
  CHECK(html("<template>" + repeated("<p>a", 4000) + "</template>b") == Words{"b"});
  CHECK(html(repeated("<b>", 3UL * 255) + "<script>b</script>c") == Words{"c"});
}

TEST_CASE("hostile input of 256 KiB is read, and does not grow", "[readable]") {
  const std::string entities = "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>";
  for (const std::string& text :
       {repeated("<b>", 100000UL * 3) + "word", entities + repeated("&b;", kMaxText - entities.size()),
        "<script>" + repeated("a<b ", kMaxText - 8), repeated("<!--", kMaxText), repeated("<", kMaxText),
        repeated("&", kMaxText), repeated("&#x", kMaxText), repeated("<a b=\"", kMaxText),
        "<a b=\"" + repeated(">", kMaxText - 6), repeated("<div><p>", kMaxText), repeated("> ", kMaxText),
        repeated("* ", kMaxText) + "a", repeated("![[]()", kMaxText), repeated("*a **a ", kMaxText),
        repeated("[", kMaxText), repeated("\xCC\x81", kMaxText), repeated("\xE2\x80\xAE", kMaxText),
        std::string(kMaxText, '\0')}) {
    for (const TextFormat format : {TextFormat::kHtml, TextFormat::kMarkdown}) {
      INFO(items::name_of(format) << " of " << text.substr(0, 20));
      const std::string out = readable(text, format);
      CHECK(out.size() <= text.size());
      CHECK(utf8::is_valid(out));
    }
  }
  CHECK(html(repeated("<b>", 100000UL * 3) + "word") == Words{"word"});
}

// Without a limit in readable_text.cpp, each of these takes longer than the whole test may.
TEST_CASE("the time to read nested elements, attributes and references is linear", "[readable]") {
  constexpr std::size_t kSize = 12 * kMaxText;
  for (const char* end_tag : {"</i>", "</p>"}) {
    CHECK(html(repeated("<b>", kSize / 2) + repeated(end_tag, kSize / 2) + "word") == Words{"word"});
  }
  std::string attributes = "<a ";
  for (int i = 0; attributes.size() < kSize; ++i) attributes += "a" + std::to_string(i) + " ";
  CHECK(html(attributes + ">word</a>") == Words{"word"});
  const std::string references = "[a]: " + repeated("&amp;", kSize / 2) + "\n\n" + repeated("[a]", kSize / 2);
  CHECK(readable(references, TextFormat::kMarkdown) == references);
}
