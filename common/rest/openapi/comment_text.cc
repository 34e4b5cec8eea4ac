#include "common/rest/openapi/comment_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace escapement::rest {

std::string CommentText(absl::string_view comment) {
  std::string text;
  absl::string_view separator;
  for (absl::string_view line : absl::StrSplit(comment, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) {
      if (!text.empty()) separator = "\n\n";
      continue;
    }
    if (separator == " " && absl::StartsWith(line, "- ")) separator = "\n";
    text.append(separator.data(), separator.size());
    text.append(line.data(), line.size());
    separator = " ";
  }
  return text;
}

std::string FieldComment(const google::protobuf::FieldDescriptor* field) {
  const std::string text = CommentOf(field);
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "As in ")) return text;
  const size_t end = rest.find('.');
  if (end == absl::string_view::npos) return text;
  const auto* message = field->file()->pool()->FindMessageTypeByName(
      absl::StrCat(field->file()->package(), ".", rest.substr(0, end)));
  const auto* other = message == nullptr ? nullptr : message->FindFieldByName(field->name());
  if (other == nullptr || other == field) return text;
  return absl::StrCat(CommentOf(other), rest.substr(end + 1));
}

bool SaysRequired(absl::string_view text) {
  constexpr absl::string_view kRequired = "Required.";
  for (size_t at = text.find(kRequired); at != absl::string_view::npos;
       at = text.find(kRequired, at + 1)) {
    const bool opens = at == 0 || absl::EndsWith(text.substr(0, at), ". ") || text[at - 1] == '\n';
    const size_t end = at + kRequired.size();
    if (opens && (end == text.size() || absl::ascii_isspace(text[end]))) return true;
  }
  return false;
}

bool SaysOutputOnly(absl::string_view text) { return absl::StartsWith(text, "Output only"); }

}  // namespace escapement::rest
