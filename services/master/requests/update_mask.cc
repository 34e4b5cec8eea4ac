#include "services/master/requests/update_mask.h"

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "google/protobuf/util/field_mask_util.h"

namespace escapement::master {

using google::protobuf::FieldMask;
using google::protobuf::Message;
using google::protobuf::util::FieldMaskUtil;

absl::StatusOr<FieldMask> ReadUpdateMask(const Message& patch, const FieldMask& mask) {
  if (mask.paths().empty()) return SetFields(patch);
  const auto* type = patch.GetDescriptor();
  FieldViolations violations;
  for (const std::string& path : mask.paths()) {
    if (path == "*") continue;
    if (path.empty() || !FieldMaskUtil::GetFieldDescriptors(type, path, nullptr)) {
      violations.Add("update_mask", absl::StrCat("\"", path.substr(0, 100), "\" is not a field of ",
                                                 type->name()));
    }
  }
  if (!violations.empty()) return violations.ToStatus();
  return mask;
}

FieldMask SetFields(const Message& message) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  FieldMask mask;
  for (const auto* field : fields) mask.add_paths(field->name());
  return mask;
}

bool ReplacesAll(const FieldMask& mask) { return HasPath(mask, "*"); }

bool HasPath(const FieldMask& mask, absl::string_view path) {
  return absl::c_linear_search(mask.paths(), path);
}

void ReplaceFields(const Message& patch, const FieldMask& mask, Message& result) {
  FieldMaskUtil::MergeOptions replace;
  replace.set_replace_message_fields(true);
  replace.set_replace_repeated_fields(true);
  FieldMaskUtil::MergeMessageTo(patch, mask, replace, &result);
}

}  // namespace escapement::master
