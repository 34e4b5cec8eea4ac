#include "services/master/requests/list_filter.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"

namespace escapement::master {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Timestamp;

// FilterComparison::number of a text: how it is compared.
enum TextComparison : int64_t { kWhole, kPrefix };

bool IsOfType(const FieldDescriptor& field, const Descriptor* type) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field.message_type() == type;
}

// "labels.team" → "labels" and "team"; "labels" → "labels" and no key.
std::pair<absl::string_view, std::optional<absl::string_view>> SplitLabel(absl::string_view field) {
  const size_t dot = field.find('.');
  if (dot == absl::string_view::npos) return {field, std::nullopt};
  return {field.substr(0, dot), field.substr(dot + 1)};
}

std::string Enumerate(std::vector<std::string> words) {
  if (words.size() < 2) return absl::StrJoin(words, "");
  const std::string last = std::move(words.back());
  words.pop_back();
  return absl::StrCat(absl::StrJoin(words, ", "), " or ", last);
}

// Reads the values of comparisons.
class Binder {
 public:
  Binder(absl::string_view tenant, absl::Span<const FilterField> fields, const Descriptor& message)
      : tenant_(tenant), fields_(fields), message_(message) {}

  absl::Status operator()(FilterComparison& comparison) const {
    const auto [name, key] = SplitLabel(comparison.field);
    const auto rule =
        std::find_if(fields_.begin(), fields_.end(),
                     [&, name = name](const FilterField& each) { return each.name == name; });
    if (rule == fields_.end()) return Unknown(comparison.field);
    if (rule->make != nullptr)
      return key.has_value() ? Unknown(comparison.field) : BindText(*rule, comparison);
    const FieldDescriptor& field = *message_.FindFieldByName(std::string(name));
    if (field.is_map() && key.has_value()) return RequireEquality(comparison);
    if (field.is_map())
      return comparison.op == FilterOperator::kHas
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError(
                       absl::StrCat(name, " takes only ':'; use ", name, ".KEY = \"value\""));
    if (comparison.field != name) return Unknown(comparison.field);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return IsOfType(field, Timestamp::descriptor())
                   ? BindTime(comparison)
                   : BindKind(*field.message_type(), comparison);
      case FieldDescriptor::CPPTYPE_ENUM:
        return BindEnum(*field.enum_type(), comparison);
      case FieldDescriptor::CPPTYPE_STRING:
        return BindText(*rule, comparison);
      default:
        return BindNumber(field, comparison);
    }
  }

 private:
  absl::Status Unknown(absl::string_view field) const {
    std::vector<std::string> known;
    for (const FilterField& each : fields_) {
      if (each.make == nullptr && message_.FindFieldByName(std::string(each.name))->is_map())
        known.push_back(absl::StrCat(each.name, ".KEY"));
      known.emplace_back(each.name);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("unknown field ", field, "; use ", Enumerate(std::move(known))));
  }

  static absl::Status BindKind(const Descriptor& target, const FilterComparison& comparison) {
    if (target.FindFieldByName(comparison.value) == nullptr)
      return absl::InvalidArgumentError(
          absl::StrCat(comparison.field, " must be the kind of a target, such as http"));
    return RequireEquality(comparison);
  }

  static absl::Status BindEnum(const google::protobuf::EnumDescriptor& type,
                               FilterComparison& comparison) {
    const auto* value = type.FindValueByName(comparison.value);
    if (value == nullptr || value->number() == 0) {
      std::vector<std::string> names;
      for (int i = 0; i < type.value_count(); ++i) {
        if (type.value(i)->number() != 0) names.push_back(type.value(i)->name());
      }
      return absl::InvalidArgumentError(
          absl::StrCat(comparison.field, " must be ", Enumerate(std::move(names))));
    }
    comparison.number = value->number();
    return RequireEquality(comparison);
  }

  absl::Status BindText(const FilterField& rule, FilterComparison& comparison) const {
    if (rule.part && comparison.op == FilterOperator::kHas) return absl::OkStatus();
    std::string& value = comparison.value;
    // An empty value stays: it means none.
    if (!rule.collection.empty() && !value.empty() && !absl::StrContains(value, '/'))
      value = absl::StrCat("tenants/", tenant_, "/", rule.collection, "/", value);
    if (rule.prefix && absl::EndsWith(value, "\\*")) {
      value.erase(value.size() - 2, 1);
    } else if (rule.prefix && absl::EndsWith(value, "*")) {
      value.pop_back();
      comparison.number = kPrefix;
    }
    return RequireEquality(comparison);
  }

  static absl::Status BindNumber(const FieldDescriptor& field, FilterComparison& comparison) {
    double real = 0;
    const bool read = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE
                          ? absl::SimpleAtod(comparison.value, &real) && std::isfinite(real)
                          : absl::SimpleAtoi(comparison.value, &comparison.number);
    if (read && comparison.op != FilterOperator::kHas) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(comparison.field, " takes =, !=, <, <=, > or >= and a number"));
  }

  const absl::string_view tenant_;
  const absl::Span<const FilterField> fields_;
  const Descriptor& message_;
};

template <typename Number>
bool NumberHolds(Number shown, Number value, FilterOperator op) {
  return (shown != 0 || value == 0) && Compares(OrderOf(shown, value), op);
}

bool TextHolds(absl::string_view shown, const FilterComparison& comparison) {
  if (comparison.op == FilterOperator::kHas) return absl::StrContains(shown, comparison.value);
  const bool same = comparison.number == kPrefix ? absl::StartsWith(shown, comparison.value)
                                                 : shown == comparison.value;
  return same == (comparison.op == FilterOperator::kEqual);
}

// The value of `key` in a map of texts; unset: it has none.
std::optional<std::string> ValueAt(const Message& message, const FieldDescriptor& map,
                                   absl::string_view key) {
  const auto& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &map);
  for (int i = 0; i < size; ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &map, i);
    const auto text = [&](const FieldDescriptor* part) {
      return entry.GetReflection()->GetString(entry, part);
    };
    if (text(map.message_type()->map_key()) == key) return text(map.message_type()->map_value());
  }
  return std::nullopt;
}

// True if one of Schedule.limits is of this policy.
bool IsAmong(const Message& message, const FieldDescriptor& limits, absl::string_view policy) {
  const auto& reflection = *message.GetReflection();
  const FieldDescriptor* const field = limits.message_type()->FindFieldByName("policy");
  for (int i = 0; i < reflection.FieldSize(message, &limits); ++i) {
    const Message& limit = reflection.GetRepeatedMessage(message, &limits, i);
    if (limit.GetReflection()->GetString(limit, field) == policy) return true;
  }
  return false;
}

bool Holds(const Message& message, const FilterComparison& comparison) {
  const auto [name, key] = SplitLabel(comparison.field);
  const auto& reflection = *message.GetReflection();
  const FieldDescriptor& field = *message.GetDescriptor()->FindFieldByName(std::string(name));
  const bool equal = comparison.op == FilterOperator::kEqual;
  if (field.is_map()) {
    if (!key.has_value()) return ValueAt(message, field, comparison.value).has_value();
    return (ValueAt(message, field, *key) == comparison.value) == equal;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      if (!reflection.HasField(message, &field)) return false;
      const Message& part = reflection.GetMessage(message, &field);
      if (const auto* time = google::protobuf::DynamicCastToGenerated<Timestamp>(&part);
          time != nullptr)
        return Compares(OrderOf(FromMicros(*TimestampMicros(*time)), comparison.time),
                        comparison.op);
      const auto* kind =
          part.GetReflection()->GetOneofFieldDescriptor(part, part.GetDescriptor()->oneof_decl(0));
      return ((kind == nullptr ? "" : kind->name()) == comparison.value) == equal;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = reflection.GetEnumValue(message, &field);
      return value != 0 && (value == comparison.number) == equal;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      if (const auto* limits = message.GetDescriptor()->FindFieldByName("limits");
          name == "policy" && limits != nullptr && reflection.FieldSize(message, limits) > 0)
        return IsAmong(message, *limits, comparison.value) == equal;
      std::string scratch;
      absl::string_view shown = reflection.GetStringReference(message, &field, &scratch);
      // Every full name contains its collection; a part is looked for in the id.
      if (comparison.op == FilterOperator::kHas && name == "name")
        shown.remove_prefix(shown.rfind('/') + 1);
      return TextHolds(shown, comparison);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      return absl::SimpleAtod(comparison.value, &value) &&
             NumberHolds(reflection.GetDouble(message, &field), value, comparison.op);
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return NumberHolds<int64_t>(reflection.GetInt32(message, &field), comparison.number,
                                  comparison.op);
    default:
      return NumberHolds<int64_t>(reflection.GetInt64(message, &field), comparison.number,
                                  comparison.op);
  }
}

}  // namespace

absl::StatusOr<ListFilter> ListFilter::Read(absl::string_view text, absl::string_view tenant,
                                            absl::Span<const FilterField> fields,
                                            const Descriptor& message) {
  absl::StatusOr<Filter> filter = ParseFilter(text);
  if (!filter.ok()) return InvalidField("filter", filter.status().message());
  if (const absl::Status status = BindComparisons(*filter, Binder(tenant, fields, message));
      !status.ok())
    return InvalidField("filter", status.message());
  ListFilter read;
  for (const FilterField& each : fields) {
    if (each.make != nullptr) read.made_.push_back(each);
    if (each.name != "name") continue;
    const std::string collection = absl::StrCat("tenants/", tenant, "/", each.collection, "/");
    ForEachNeeded(*filter, [&](const FilterComparison& comparison) {
      absl::string_view id = comparison.value;
      if (comparison.field == "name" && comparison.op == FilterOperator::kEqual &&
          absl::ConsumePrefix(&id, collection) && id.size() > read.id_prefix_.size())
        read.id_prefix_ = std::string(id);
    });
  }
  ForEachNeeded(*filter, [&](const FilterComparison& comparison) {
    const auto [name, key] = SplitLabel(comparison.field);
    if (key.has_value() && comparison.op == FilterOperator::kEqual && !read.label_.has_value())
      read.label_.emplace(*key, comparison.value);
  });
  read.filter_ = *std::move(filter);
  return read;
}

bool ListFilter::Matches(const Message& message) const {
  return FilterHolds(filter_, [&](const FilterComparison& comparison) {
    for (const FilterField& each : made_) {
      if (comparison.field == each.name) return TextHolds(each.make(message), comparison);
    }
    return Holds(message, comparison);
  });
}

}  // namespace escapement::master
