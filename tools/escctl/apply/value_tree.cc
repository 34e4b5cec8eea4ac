#include "tools/escctl/apply/value_tree.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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
    return node.IsScalar() ? ValueTree(node.Scalar()) : ValueTree();
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
        map[entry.first.Scalar()] = Build(entry.second, depth + 1);
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

}  // namespace escapement::escctl
