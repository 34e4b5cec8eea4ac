#include "common/base/xml_text.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace escapement {
namespace {

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
  text.push_back(static_cast<char>(kLead[more] | code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i)
    text.push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3f)));
}

// Resolves the name between & and ; and returns false if it is unknown.
bool AppendReference(absl::string_view name, std::string& text) {
  for (const auto& [known, c] : {std::pair{"amp", '&'}, std::pair{"lt", '<'}, std::pair{"gt", '>'},
                                 std::pair{"quot", '"'}, std::pair{"apos", '\''}}) {
    if (name != known) continue;
    text.push_back(c);
    return true;
  }
  uint32_t code = 0;
  if (!absl::ConsumePrefix(&name, "#")) return false;
  const bool read = absl::ConsumePrefix(&name, "x") ? absl::SimpleHexAtoi(name, &code)
                                                    : absl::SimpleAtoi(name, &code);
  if (!read || code == 0 || code > 0x10ffff) return false;
  AppendUtf8(code, text);
  return true;
}

}  // namespace

std::vector<absl::string_view> XmlElements(absl::string_view xml, absl::string_view name) {
  const std::string open = absl::StrCat("<", name, ">");
  const std::string close = absl::StrCat("</", name, ">");
  std::vector<absl::string_view> found;
  while (true) {
    const size_t begin = xml.find(open);
    if (begin == absl::string_view::npos) return found;
    xml.remove_prefix(begin + open.size());
    const size_t end = xml.find(close);
    if (end == absl::string_view::npos) return found;
    found.push_back(xml.substr(0, end));
    xml.remove_prefix(end + close.size());
  }
}

std::string XmlText(absl::string_view xml, absl::string_view name) {
  const std::vector<absl::string_view> found = XmlElements(xml, name);
  if (found.empty()) return "";
  absl::string_view rest = found.front();
  std::string text;
  while (!rest.empty()) {
    const size_t end = rest[0] == '&' ? rest.find(';') : absl::string_view::npos;
    if (end != absl::string_view::npos && AppendReference(rest.substr(1, end - 1), text)) {
      rest.remove_prefix(end + 1);
    } else {
      text.push_back(rest[0]);
      rest.remove_prefix(1);
    }
  }
  return text;
}

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace escapement
