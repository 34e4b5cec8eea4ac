#include "tools/escctl/apply/message_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

namespace escapement::escctl {

namespace {

// A few aliases of aliases can stand for billions of values.
constexpr int kValuesMax = 1'000'000;
constexpr int kDepthMax = 100;

class TreeBuilder {
 public:
  explicit TreeBuilder(int line) : line_(line) {}

  ValueTree Build(const YAML::Node& node, int depth) {
    if (++values_ > kValuesMax || depth > kDepthMax) {
      Refuse(node, "holds too many values");
      return {};
    }
    if (node.IsSequence()) {
      ValueTree list = ValueTree::array();
      for (const YAML::Node& item : node) {
        list.push_back(Build(item, depth + 1));
        if (!problem_.empty()) break;
      }
      return list;
    }
    if (node.IsMap()) return BuildMap(node, depth);
    if (!node.IsScalar()) return ValueTree();
    if (!typed_ || node.Tag() != "?") return ValueTree(node.Scalar());
    // Without quotes it may be a number, true or false.
    ValueTree value = ValueTree::parse(node.Scalar(), nullptr, /*allow_exceptions=*/false);
    return value.is_primitive() && !value.is_discarded() ? value : ValueTree(node.Scalar());
  }

  const std::string& problem() const { return problem_; }

 private:
  ValueTree BuildMap(const YAML::Node& node, int depth) {
    ValueTree map = ValueTree::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        Refuse(entry.first, "a key must be a single word");
      } else if (map.contains(entry.first.Scalar())) {
        Refuse(entry.first, absl::StrCat("'", entry.first.Scalar(), "' stands twice"));
      } else {
        const bool was_typed = typed_;
        // Other fields have their types from their message. The resource may stand in a list.
        typed_ = typed_ || (depth <= 1 && entry.first.Scalar() == "payloadJson");
        map[entry.first.Scalar()] = Build(entry.second, depth + 1);
        typed_ = was_typed;
      }
      if (!problem_.empty()) break;
    }
    return map;
  }

  void Refuse(const YAML::Node& node, absl::string_view words) {
    if (problem_.empty()) problem_ = absl::StrCat("line ", line_ + node.Mark().line, ": ", words);
  }

  const int line_;  // the line of the document's first text
  int values_ = 0;
  bool typed_ = false;  // inside of payloadJson
  std::string problem_;
};

bool HasText(absl::string_view line) {
  line = absl::StripAsciiWhitespace(line);
  return !line.empty() && line.front() != '#';
}

// "---" alone, or with blanks and text behind it.
bool IsMarker(absl::string_view line) {
  return absl::StartsWith(line, "---") &&
         (line.size() == 3 || absl::ascii_isspace(static_cast<unsigned char>(line[3])));
}

}  // namespace

std::vector<DocumentText> SplitDocuments(absl::string_view file) {
  std::vector<DocumentText> documents;
  DocumentText current;
  const auto end = [&] {
    if (current.line > 0) {
      current.number = static_cast<int>(documents.size()) + 1;
      documents.push_back(std::move(current));
    }
    current = {};
  };
  int number = 0;
  for (absl::string_view line : absl::StrSplit(file, '\n')) {
    ++number;
    if (IsMarker(line)) {
      end();
      line.remove_prefix(3);
    }
    // Lines before the first text are left out, so that `line` counts from it.
    if (current.line == 0 && !HasText(line)) continue;
    if (current.line == 0) current.line = number;
    absl::StrAppend(&current.text, line, "\n");
  }
  end();
  return documents;
}

absl::StatusOr<ValueTree> ParseDocument(const DocumentText& document) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(document.text);
  if (absl::StartsWith(text, "[") || absl::StartsWith(text, "{")) {
    ValueTree tree = ValueTree::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!tree.is_discarded()) return tree;
  }
  TreeBuilder builder(document.line);
  try {
    ValueTree tree = builder.Build(YAML::Load(document.text), 0);
    if (!builder.problem().empty()) return absl::InvalidArgumentError(builder.problem());
    return tree;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", document.line + std::max(0, error.mark.line), ": ", error.msg));
  }
}

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::TimeUtil;

bool ReadDuration(const std::string& text, google::protobuf::Duration& duration) {
  if (TimeUtil::FromString(text, &duration)) return true;
  constexpr absl::Duration kMax = absl::Hours(24 * 366 * 1000);
  absl::Duration parsed;
  if (!absl::ParseDuration(text, &parsed) || parsed < -kMax || parsed > kMax) return false;
  const int64_t seconds = absl::ToInt64Seconds(parsed);
  duration.set_seconds(seconds);
  duration.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(parsed - absl::Seconds(seconds))));
  return true;
}

class Reader {
 public:
  explicit Reader(std::vector<FieldError>& errors) : errors_(errors) {}

  void Read(const ValueTree& values, const std::string& path, Message& message) {
    if (!values.is_object()) return Refuse(path, "must hold fields, as in \"name: value\"");
    const auto* descriptor = message.GetDescriptor();
    std::vector<std::string> oneofs;
    for (const auto& [key, value] : values.items()) {
      const std::string place = path.empty() ? key : absl::StrCat(path, ".", key);
      const FieldDescriptor* field = FindField(*descriptor, key);
      if (field == nullptr) {
        RefuseUnknown(place, key, *descriptor);
        continue;
      }
      if (value.is_null()) continue;
      if (const auto* oneof = field->real_containing_oneof(); oneof != nullptr) {
        if (message.GetReflection()->HasOneof(message, oneof)) {
          Refuse(place, "set only one of " + NamesOf(*oneof));
          continue;
        }
      }
      ReadField(value, place, *field, message);
    }
  }

 private:
  static const FieldDescriptor* FindField(const google::protobuf::Descriptor& descriptor,
                                          const std::string& key) {
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const FieldDescriptor* field = descriptor.field(i);
      if (field->json_name() == key || field->name() == key) return field;
    }
    return nullptr;
  }

  static std::string NamesOf(const google::protobuf::OneofDescriptor& oneof) {
    std::vector<std::string> names;
    for (int i = 0; i < oneof.field_count(); ++i) names.push_back(oneof.field(i)->json_name());
    return absl::StrJoin(names, ", ");
  }

  void RefuseUnknown(const std::string& place, const std::string& key,
                     const google::protobuf::Descriptor& descriptor) {
    std::vector<std::string> names;
    for (int i = 0; i < descriptor.field_count(); ++i)
      names.push_back(descriptor.field(i)->json_name());
    const std::string near = NearestWord(key, names);
    Refuse(place, near.empty()
                      ? absl::StrCat("no such field; it may be one of ", absl::StrJoin(names, ", "))
                      : absl::StrCat("no such field; did you mean ", near, "?"));
  }

  void ReadField(const ValueTree& value, const std::string& place, const FieldDescriptor& field,
                 Message& message) {
    if (field.is_map()) return ReadMap(value, place, field, message);
    if (!field.is_repeated()) return ReadValue(value, place, field, message);
    if (!value.is_array()) return Refuse(place, "must be a list");
    int index = 0;
    for (const ValueTree& item : value)
      ReadValue(item, absl::StrCat(place, "[", index++, "]"), field, message);
  }

  void ReadMap(const ValueTree& value, const std::string& place, const FieldDescriptor& field,
               Message& message) {
    if (!value.is_object()) return Refuse(place, "must hold pairs, as in \"key: value\"");
    for (const auto& [key, item] : value.items()) {
      Message* entry = message.GetReflection()->AddMessage(&message, &field);
      const auto* type = field.message_type();
      ReadValue(key, place, *type->map_key(), *entry);
      ReadValue(item, absl::StrCat(place, "[", key, "]"), *type->map_value(), *entry);
    }
  }

  // Sets the field, or adds to it if it is repeated.
  void ReadValue(const ValueTree& value, const std::string& place, const FieldDescriptor& field,
                 Message& message) {
    const Reflection& reflection = *message.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return ReadNested(value, place,
                        field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                            : *reflection.MutableMessage(&message, &field));
    }
    if (!value.is_primitive() || value.is_null()) return Refuse(place, "must be a single value");
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    const auto put = [&](auto set, auto add, auto parsed) {
      field.is_repeated() ? (reflection.*add)(&message, &field, parsed)
                          : (reflection.*set)(&message, &field, parsed);
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return ReadText(text, place, field, message);
      case FieldDescriptor::CPPTYPE_ENUM:
        return ReadEnum(text, place, field, message);
      case FieldDescriptor::CPPTYPE_INT32:
        if (int32_t number; absl::SimpleAtoi(text, &number))
          return put(&Reflection::SetInt32, &Reflection::AddInt32, number);
        return Refuse(place, absl::StrCat("'", text, "' is not a whole number"));
      case FieldDescriptor::CPPTYPE_INT64:
        if (int64_t number; absl::SimpleAtoi(text, &number))
          return put(&Reflection::SetInt64, &Reflection::AddInt64, number);
        return Refuse(place, absl::StrCat("'", text, "' is not a whole number"));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        if (double number; absl::SimpleAtod(text, &number))
          return put(&Reflection::SetDouble, &Reflection::AddDouble, number);
        return Refuse(place, absl::StrCat("'", text, "' is not a number"));
      case FieldDescriptor::CPPTYPE_BOOL:
        if (text == "true" || text == "false")
          return put(&Reflection::SetBool, &Reflection::AddBool, text == "true");
        return Refuse(place, absl::StrCat("'", text, "' is not true or false"));
      default:
        return Refuse(place, "cannot be set from a file");
    }
  }

  void ReadText(const std::string& text, const std::string& place, const FieldDescriptor& field,
                Message& message) {
    std::string bytes = text;
    if (field.type() == FieldDescriptor::TYPE_BYTES && !absl::Base64Unescape(text, &bytes))
      return Refuse(place, "is not base64; to give it as text, use payloadText");
    const Reflection& reflection = *message.GetReflection();
    field.is_repeated() ? reflection.AddString(&message, &field, bytes)
                        : reflection.SetString(&message, &field, bytes);
  }

  void ReadEnum(const std::string& text, const std::string& place, const FieldDescriptor& field,
                Message& message) {
    const auto* value = field.enum_type()->FindValueByName(text);
    if (value != nullptr) {
      const Reflection& reflection = *message.GetReflection();
      return field.is_repeated() ? reflection.AddEnum(&message, &field, value)
                                 : reflection.SetEnum(&message, &field, value);
    }
    std::vector<std::string> names;
    for (int i = 0; i < field.enum_type()->value_count(); ++i) {
      if (field.enum_type()->value(i)->number() != 0)
        names.push_back(field.enum_type()->value(i)->name());
    }
    Refuse(place, absl::StrCat("'", text, "' is not one of ", absl::StrJoin(names, ", ")));
  }

  void ReadNested(const ValueTree& value, const std::string& place, Message& message) {
    auto* duration = dynamic_cast<google::protobuf::Duration*>(&message);
    auto* time = dynamic_cast<google::protobuf::Timestamp*>(&message);
    if (duration == nullptr && time == nullptr) return Read(value, place, message);
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (duration != nullptr && !ReadDuration(text, *duration))
      Refuse(place, absl::StrCat("'", text, "' is not a duration such as 90s or 1h30m"));
    if (time != nullptr && !TimeUtil::FromString(text, time))
      Refuse(place, absl::StrCat("'", text, "' is not a time such as 2026-12-24T18:00:00Z"));
  }

  void Refuse(const std::string& place, std::string problem) {
    errors_.push_back({place, std::move(problem)});
  }

  std::vector<FieldError>& errors_;
};

// Number of letters to insert, delete or replace.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

void ReadMessage(const ValueTree& values, Message& message, std::vector<FieldError>& errors) {
  Reader(errors).Read(values, "", message);
}

std::string FileFieldName(absl::string_view server_field) {
  const size_t dot = server_field.find('.');
  // "policy" alone is a schedule's field; before a dot it is the resource.
  if (dot != absl::string_view::npos) {
    const absl::string_view resource = server_field.substr(0, dot);
    for (const absl::string_view known : {"schedule", "policy", "calendar", "subscription"}) {
      if (resource != known) continue;
      server_field.remove_prefix(dot + 1);
      break;
    }
  }
  std::string name;
  bool inside_brackets = false;
  for (size_t i = 0; i < server_field.size(); ++i) {
    const char c = server_field[i];
    if (c == '[') inside_brackets = true;
    if (c == ']') inside_brackets = false;
    if (c == '_' && !inside_brackets && i + 1 < server_field.size()) {
      name += absl::ascii_toupper(static_cast<unsigned char>(server_field[++i]));
    } else {
      name += c;
    }
  }
  return name;
}

std::string NearestWord(absl::string_view word, const std::vector<std::string>& words) {
  if (word.size() > 100) return "";
  std::string nearest;
  size_t best = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& other : words) {
    const size_t distance = Distance(absl::AsciiStrToLower(word), absl::AsciiStrToLower(other));
    if (distance >= best) continue;
    best = distance;
    nearest = other;
  }
  return nearest;
}

}  // namespace escapement::escctl
