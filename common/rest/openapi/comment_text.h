// The comments of proto declarations as prose for readers of the API.
//
// Pure.

#ifndef COMMON_REST_OPENAPI_COMMENT_TEXT_H_
#define COMMON_REST_OPENAPI_COMMENT_TEXT_H_

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/string_view.h"

namespace escapement::rest {

// A comment without the line breaks of the proto file. Paragraphs are separated by an empty line;
// list items ("- item") keep lines of their own.
std::string CommentText(absl::string_view comment);

// The comment above a declaration, "" if it has none or the descriptors have no comments.
template <typename Descriptor>
std::string CommentOf(const Descriptor* declaration) {
  google::protobuf::SourceLocation location;
  return declaration->GetSourceLocation(&location) ? CommentText(location.leading_comments)
                                                   : std::string();
}

// The comment above a field. "As in Schedule." at its beginning is replaced by the comment of the
// field with the same name in that message of the same package.
std::string FieldComment(const google::protobuf::FieldDescriptor* field);

// Whether the text of a field has the sentence "Required." Our protos mark fields so.
bool SaysRequired(absl::string_view text);
// Whether the text of a field begins with "Output only".
bool SaysOutputOnly(absl::string_view text);

}  // namespace escapement::rest

#endif  // COMMON_REST_OPENAPI_COMMENT_TEXT_H_
