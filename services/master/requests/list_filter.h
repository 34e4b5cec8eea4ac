// The `filter` of a list (common/filter/filter.h): conditions on fields of the listed message. The
// message's descriptor says what a condition may be:
//
//   a time     = != < <= > >= with a time in RFC 3339; no comparison holds for a time that is unset
//   a number   = != < <= > >= with a number; 0 counts as unset: only comparisons with 0 hold for it
//   an enum    = != with the name of a value; neither holds for the value 0, which counts as unset
//   a text     = !=, and more if the list says so (FilterField)
//   a Target   = != with its kind, such as http; neither holds for a target that is unset
//   labels     labels.KEY = != with a text; labels:KEY
//
// Pure.

#ifndef SERVICES_MASTER_REQUESTS_LIST_FILTER_H_
#define SERVICES_MASTER_REQUESTS_LIST_FILTER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/filter/filter.h"
#include "google/protobuf/message.h"

namespace escapement::master {

// A field that a list's filter may name.
struct FilterField {
  absl::string_view name;  // as in the message; outlives every filter
  // The rest is for texts only.
  // The text names a resource of this collection. A value without '/' is an id of the tenant's.
  absl::string_view collection = {};
  // A value that ends with * matches all texts that begin so; one that ends with \* ends with a *.
  bool prefix = false;
  bool part = false;  // ':' matches texts that contain the value; of a name, its last part
  // Makes the text from the message, which has no field of this name. Null: the message has it.
  std::string (*make)(const google::protobuf::Message& message) = nullptr;
};

class ListFilter {
 public:
  // Everything matches.
  ListFilter() = default;

  // INVALID_ARGUMENT (filter).
  template <typename Message>
  static absl::StatusOr<ListFilter> Read(absl::string_view text, absl::string_view tenant,
                                         absl::Span<const FilterField> fields) {
    return Read(text, tenant, fields, *Message::descriptor());
  }

  bool always() const { return filter_.always(); }
  // `message` is of the type that Read was given.
  bool Matches(const google::protobuf::Message& message) const;

  // Every match has its time `field` in this range.
  FilterTimes TimesOf(absl::string_view field) const { return FilterTimesOf(filter_, field); }
  // Every match has an id that begins so. Empty: any.
  const std::string& id_prefix() const { return id_prefix_; }
  // Every match has this label (key, value).
  const std::optional<std::pair<std::string, std::string>>& label() const { return label_; }
  // The value of an enum is its comparison's `number`.
  const Filter& conditions() const { return filter_; }

 private:
  static absl::StatusOr<ListFilter> Read(absl::string_view text, absl::string_view tenant,
                                         absl::Span<const FilterField> fields,
                                         const google::protobuf::Descriptor& message);

  Filter filter_;
  std::vector<FilterField> made_;  // the fields with `make`
  std::string id_prefix_;
  std::optional<std::pair<std::string, std::string>> label_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_LIST_FILTER_H_
