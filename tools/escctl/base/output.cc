#include "tools/escctl/base/output.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "nlohmann/json.hpp"

namespace escapement::escctl {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  return status.ok() ? Json::parse(text, nullptr, false) : Json();
}

// True for names of the API and words like them.
bool IsPlainWord(absl::string_view text) {
  return !text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c); });
}

void EmitYaml(YAML::Emitter& out, const Json& json) {
  if (json.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, value] : json.items()) {
      // Keys of maps come from users: quote them unless they are plain words.
      if (IsPlainWord(key)) {
        out << YAML::Key << key << YAML::Value;
      } else {
        out << YAML::Key << YAML::DoubleQuoted << key << YAML::Value;
      }
      EmitYaml(out, value);
    }
    out << YAML::EndMap;
  } else if (json.is_array()) {
    out << YAML::BeginSeq;
    for (const auto& value : json) EmitYaml(out, value);
    out << YAML::EndSeq;
  } else if (json.is_string()) {
    // Quote strings, so that "5", "true" and times stay strings.
    out << YAML::DoubleQuoted << json.get<std::string>();
  } else {
    out << json.dump();
  }
}

std::string Format(const Json& json, OutputFormat format) {
  if (format == OutputFormat::kYaml) {
    YAML::Emitter out;
    EmitYaml(out, json);
    return absl::StrCat(EscapeInsideQuotes(out.c_str()), "\n");
  }
  return absl::StrCat(EscapeInsideQuotes(json.dump(2)), "\n");
}

}  // namespace

std::string FormatTable(const Row& header, const std::vector<Row>& unescaped) {
  std::vector<Row> rows = unescaped;
  for (Row& row : rows) {
    for (std::string& cell : row) cell = EscapeForTerminal(cell);
  }
  std::vector<size_t> widths(header.size());
  for (size_t i = 0; i < header.size(); ++i) widths[i] = header[i].size();
  for (const Row& row : rows) {
    for (size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  const auto add = [&](const Row& row) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? row[i] : "";
      absl::StrAppend(&line, cell, std::string(widths[i] - cell.size() + 2, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  add(header);
  for (const Row& row : rows) add(row);
  return text;
}

std::string FormatMessage(const google::protobuf::Message& message, OutputFormat format) {
  return Format(ToJson(message), format);
}

std::string FormatMessages(const std::vector<const google::protobuf::Message*>& messages,
                           OutputFormat format) {
  Json list = Json::array();
  for (const auto* message : messages) list.push_back(ToJson(*message));
  return Format(list, format);
}

std::string FormatJsonText(absl::string_view json, OutputFormat format) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  return Format(parsed.is_discarded() ? Json() : parsed, format);
}

std::string Counted(size_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

}  // namespace escapement::escctl
