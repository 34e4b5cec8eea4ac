#include "common/rest/strict_json.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/bounded_json.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// Takes the digits that `text` begins with; how many there were.
size_t TakeDigits(absl::string_view& text) {
  const size_t count =
      static_cast<size_t>(std::find_if_not(text.begin(), text.end(), IsDigit) - text.begin());
  text.remove_prefix(count);
  return count;
}

// An optional part of a second: a dot and 1 to 9 digits.
bool TakeFraction(absl::string_view& text) {
  if (!absl::ConsumePrefix(&text, ".")) return true;
  const size_t digits = TakeDigits(text);
  return digits >= 1 && digits <= 9;
}

// `form` is literal except that '0' stands for a digit.
bool TakeForm(absl::string_view& text, absl::string_view form) {
  if (text.size() < form.size()) return false;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] == '0' ? !IsDigit(text[i]) : text[i] != form[i]) return false;
  }
  text.remove_prefix(form.size());
  return true;
}

bool IsTimeText(absl::string_view text) {
  if (!TakeForm(text, "0000-00-00T00:00:00") || !TakeFraction(text)) return false;
  if (text == "Z") return true;
  const absl::string_view offset = text;
  if (!TakeForm(text, "+00:00") && !TakeForm(text, "-00:00")) return false;
  return text.empty() && offset.substr(1, 2) <= "23" && offset.substr(4) <= "59";
}

bool IsDurationText(absl::string_view text) {
  absl::ConsumePrefix(&text, "-");
  return TakeDigits(text) > 0 && TakeFraction(text) && text == "s";
}

bool IsWellKnown(const Descriptor& type, absl::string_view name) {
  return type.file()->package() == "google.protobuf" && type.name() == name;
}

bool IsIntegerField(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return true;
    default:
      return false;
  }
}

bool IsFractionField(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT;
}

enum class Form { kBytes, kText, kJson };

// A field, and in which form a name of the JSON gives it.
struct Named {
  const FieldDescriptor* field = nullptr;
  Form form = Form::kBytes;  // other than kBytes only for bytes
};

Named NamedBy(const Descriptor& type, absl::string_view key) {
  if (const FieldDescriptor* field = FindField(&type, key); field != nullptr) return {field};
  absl::string_view stem = key;
  Form form = Form::kBytes;
  if (absl::ConsumeSuffix(&stem, "_text") || absl::ConsumeSuffix(&stem, "Text")) form = Form::kText;
  if (absl::ConsumeSuffix(&stem, "_json") || absl::ConsumeSuffix(&stem, "Json")) form = Form::kJson;
  if (form == Form::kBytes) return {};
  const FieldDescriptor* field = FindField(&type, stem);
  const bool bytes =
      field != nullptr && field->type() == FieldDescriptor::TYPE_BYTES && !field->is_repeated();
  return bytes ? Named{field, form} : Named{};
}

// Reads the text once. `out_` gets what was read, except names and values that are replaced.
class StrictReader {
 public:
  explicit StrictReader(absl::string_view text) : text_(text) { out_.reserve(text.size()); }

  absl::StatusOr<std::string> Read(const Descriptor& type) {
    RETURN_IF_ERROR(ReadMessage(type, 0));
    SkipBlanks();
    if (at_ < text_.size()) return Malformed();
    Replace(at_, "");
    return std::move(out_);
  }

 private:
  absl::Status Fault(absl::string_view what) const {
    return absl::InvalidArgumentError(path_.empty() ? std::string(what)
                                                    : absl::StrCat(path_, ": ", what));
  }
  absl::Status Malformed() const {
    return Fault(at_ >= text_.size() ? std::string("the JSON ends too early")
                                     : absl::StrCat("is not JSON at byte ", at_ + 1));
  }

  void SkipBlanks() {
    while (at_ < text_.size() && absl::StrContains(" \t\r\n", text_[at_])) ++at_;
  }
  bool NextIs(char c) {
    SkipBlanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    if (!NextIs(c)) return false;
    ++at_;
    return true;
  }

  // Writes what was read, with `with` in place of what begins at `begin`.
  void Replace(size_t begin, absl::string_view with) {
    out_.append(text_.data() + copied_, begin - copied_);
    out_.append(with.data(), with.size());
    copied_ = at_;
  }

  // With its quotes, as it is written.
  absl::StatusOr<absl::string_view> ReadQuoted() {
    SkipBlanks();
    const size_t begin = at_;
    if (!Take('"')) return Malformed();
    for (; at_ < text_.size(); ++at_) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') return text_.substr(begin, ++at_ - begin);
      if (c < 0x20) return Malformed();
      if (c != '\\') continue;
      if (++at_ == text_.size()) break;
      if (text_[at_] == 'u') {
        for (int i = 0; i < 4; ++i) {
          if (++at_ == text_.size() ||
              !absl::ascii_isxdigit(static_cast<unsigned char>(text_[at_])))
            return Malformed();
        }
      } else if (!absl::StrContains("\"\\/bfnrt", text_[at_])) {
        return Malformed();
      }
    }
    return Malformed();
  }

  // The text of a string in quotes.
  absl::StatusOr<std::string> Unquoted(absl::string_view quoted) const {
    if (!absl::StrContains(quoted, '\\')) return std::string(quoted.substr(1, quoted.size() - 2));
    const nlohmann::json value = ParseBoundedJson(quoted);
    if (!value.is_string()) return Fault("is not valid Unicode");
    return value.get<std::string>();
  }

  absl::Status ReadNumber() {
    absl::string_view rest = text_.substr(at_);
    if (!TakeJsonNumber(rest)) return Malformed();
    at_ = text_.size() - rest.size();
    return absl::OkStatus();
  }

  // true, false or null.
  bool TakeWord(absl::string_view word) {
    SkipBlanks();
    if (!absl::StartsWith(text_.substr(at_), word)) return false;
    at_ += word.size();
    return true;
  }

  // Calls `read_value(key)` at each value of an object, with the key in quotes.
  template <typename ReadValue>
  absl::Status ReadObject(size_t depth, ReadValue read_value) {
    if (depth >= kJsonDepthMax) return Fault("is nested too deep");
    if (!Take('{')) return Malformed();
    if (Take('}')) return absl::OkStatus();
    do {
      ASSIGN_OR_RETURN(const absl::string_view key, ReadQuoted());
      if (!Take(':')) return Malformed();
      RETURN_IF_ERROR(read_value(key));
    } while (Take(','));
    return Take('}') ? absl::OkStatus() : Malformed();
  }

  template <typename ReadValue>
  absl::Status ReadArray(size_t depth, ReadValue read_value) {
    if (depth >= kJsonDepthMax) return Fault("is nested too deep");
    if (!Take('[')) return Malformed();
    if (Take(']')) return absl::OkStatus();
    do {
      RETURN_IF_ERROR(read_value());
    } while (Take(','));
    return Take(']') ? absl::OkStatus() : Malformed();
  }

  // Any JSON.
  absl::Status ReadAny(size_t depth) {
    if (NextIs('{')) {
      return ReadObject(depth, [&](absl::string_view) { return ReadAny(depth + 1); });
    }
    if (NextIs('[')) return ReadArray(depth, [&] { return ReadAny(depth + 1); });
    if (NextIs('"')) return ReadQuoted().status();
    if (TakeWord("true") || TakeWord("false") || TakeWord("null")) return absl::OkStatus();
    return ReadNumber();
  }

  // Runs `read` with the key at the end of the path that errors name.
  template <typename ReadValue>
  absl::Status At(absl::string_view key, ReadValue read) {
    const size_t size = path_.size();
    absl::StrAppend(&path_, path_.empty() ? "" : ".", key);
    RETURN_IF_ERROR(read());
    path_.resize(size);
    return absl::OkStatus();
  }

  absl::Status ReadMessage(const Descriptor& type, size_t depth) {
    std::vector<const FieldDescriptor*> given;
    return ReadObject(depth, [&](absl::string_view quoted) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string key, Unquoted(quoted));
      const Named named = NamedBy(type, key);
      if (named.field == nullptr) return ReadAny(depth + 1);
      return At(key, [&]() -> absl::Status {
        if (named.form != Form::kBytes) {
          const auto begin = static_cast<size_t>(quoted.data() - text_.data());
          ASSIGN_OR_RETURN(const bool set, ReadBytesAs(*named.field, named.form, begin, depth + 1));
          if (!set) return absl::OkStatus();
        } else if (NextIs('n')) {
          // null: as if it were not given. Elsewhere it is a value.
          if (!TakeWord("null")) return Malformed();
          return absl::OkStatus();
        } else {
          RETURN_IF_ERROR(ReadField(*named.field, depth + 1));
        }
        if (std::find(given.begin(), given.end(), named.field) != given.end())
          return Fault("is given twice");
        given.push_back(named.field);
        return absl::OkStatus();
      });
    });
  }

  // The value of a field of bytes in another form. With its name, which begins at `name`, it
  // becomes the field itself. False: null.
  absl::StatusOr<bool> ReadBytesAs(const FieldDescriptor& field, Form form, size_t name,
                                   size_t depth) {
    SkipBlanks();
    const size_t begin = at_;
    RETURN_IF_ERROR(ReadAny(depth));
    const absl::string_view written = text_.substr(begin, at_ - begin);
    std::string bytes(written);
    if (form == Form::kText && written != "null") {
      if (written[0] != '"') return Fault("must be text");
      ASSIGN_OR_RETURN(bytes, Unquoted(written));
    } else if (form == Form::kJson && ParseBoundedJson(written).is_discarded()) {
      return Fault("is not valid Unicode");
    }
    // JSON's null is a payload; it is the text that can be absent.
    const bool set = form == Form::kJson || written != "null";
    Replace(name,
            set ? absl::StrCat("\"", field.json_name(), "\":\"", absl::Base64Escape(bytes), "\"")
                : absl::StrCat("\"", field.json_name(), "\":null"));
    return set;
  }

  absl::Status ReadField(const FieldDescriptor& field, size_t depth) {
    if (field.is_map()) return ReadMap(*field.message_type(), depth);
    if (!field.is_repeated()) return ReadValue(field, depth);
    if (!NextIs('[')) return ReadAny(depth);  // protobuf's reader refuses it
    return ReadArray(depth, [&] { return ReadValue(field, depth + 1); });
  }

  absl::Status ReadMap(const Descriptor& entry, size_t depth) {
    const FieldDescriptor& value = *entry.map_value();
    std::set<std::string> given;
    return ReadObject(depth, [&](absl::string_view quoted) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string key, Unquoted(quoted));
      if (!given.insert(key).second) return Fault("has a key twice");
      return ReadValue(value, depth + 1);
    });
  }

  absl::Status ReadValue(const FieldDescriptor& field, size_t depth) {
    const Descriptor* type = field.message_type();
    if (type != nullptr && type->file()->package() != "google.protobuf" && NextIs('{'))
      return ReadMessage(*type, depth);
    if (!NextIs('"')) {
      const bool literal = NextIs('t') || NextIs('f');
      if (literal && (IsIntegerField(field) || IsFractionField(field)))
        return Fault("must be a number");
      return ReadAny(depth);
    }
    ASSIGN_OR_RETURN(const absl::string_view quoted, ReadQuoted());
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return Fault("must be true or false");
    const bool number = IsIntegerField(field) || IsFractionField(field);
    if (type == nullptr && !number) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::string text, Unquoted(quoted));
    absl::string_view rest = text;
    if (number && (!TakeJsonNumber(rest) || !rest.empty())) return Fault("must be a number");
    const std::string fault = number ? std::string() : TimeTextFault(*type, text);
    return fault.empty() ? absl::OkStatus() : Fault(fault);
  }

  const absl::string_view text_;
  size_t at_ = 0;      // all before it is read
  size_t copied_ = 0;  // all before it is in out_, or replaced
  std::string out_;
  std::string path_;  // the path of the field that is being read
};

}  // namespace

absl::StatusOr<std::string> StrictJson(const Descriptor& type, absl::string_view json) {
  return StrictReader(json).Read(type);
}

std::string TimeTextFault(const Descriptor& type, absl::string_view text) {
  if (IsWellKnown(type, "Timestamp") && !IsTimeText(text))
    return "must be a time such as 2030-01-31T09:00:00Z, with at most 9 digits after the second";
  if (IsWellKnown(type, "Duration") && !IsDurationText(text))
    return "must be a duration such as 1.5s, with at most 9 digits after the second";
  return {};
}

const FieldDescriptor* FindField(const Descriptor* message, absl::string_view name) {
  const std::string text(name);
  const FieldDescriptor* field = message->FindFieldByName(text);
  return field != nullptr ? field : message->FindFieldByCamelcaseName(text);
}

}  // namespace escapement::rest
