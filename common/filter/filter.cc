#include "common/filter/filter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"

namespace escapement {
namespace {

bool InWord(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ||
         c == ':' || c == '+';
}

bool InField(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
}

bool IsKeyword(absl::string_view word) { return word == "AND" || word == "OR" || word == "NOT"; }

// The grammar. expression: conjunct {AND conjunct}; conjunct: term {OR term}; term: NOT term | (
// expression ) | field operator value.
class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Filter> Parse() {
    absl::StatusOr<Filter> filter = Expression(0);
    if (!filter.ok()) return filter;
    SkipBlanks();
    if (at_ < text_.size()) return Error("expected AND, OR or the end");
    return filter;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(what, " at character ", at_ + 1));
  }

  void SkipBlanks() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool Take(absl::string_view symbol) {
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }

  absl::string_view Word() const {
    size_t end = at_;
    while (end < text_.size() && InWord(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }

  bool TakeKeyword(absl::string_view keyword) {
    SkipBlanks();
    return Word() == keyword && Take(keyword);
  }

  absl::StatusOr<Filter> Expression(size_t depth) {
    return Joined(Filter::Kind::kAnd, "AND",
                  [&] { return Joined(Filter::Kind::kOr, "OR", [&] { return Term(depth); }); });
  }

  absl::StatusOr<Filter> Joined(Filter::Kind kind, absl::string_view keyword,
                                absl::FunctionRef<absl::StatusOr<Filter>()> operand) {
    Filter joined{.kind = kind};
    do {
      absl::StatusOr<Filter> next = operand();
      if (!next.ok()) return next;
      joined.operands.push_back(*std::move(next));
    } while (TakeKeyword(keyword));
    if (joined.operands.size() > 1) return joined;
    return std::move(joined.operands.front());
  }

  absl::StatusOr<Filter> Term(size_t depth) {
    if (depth > kFilterDepthMax) return Error("nested too deeply");
    if (TakeKeyword("NOT")) {
      absl::StatusOr<Filter> operand = Term(depth + 1);
      if (!operand.ok()) return operand;
      Filter negated{.kind = Filter::Kind::kNot};
      negated.operands.push_back(*std::move(operand));
      return negated;
    }
    if (Take("(")) {
      absl::StatusOr<Filter> inner = Expression(depth + 1);
      if (!inner.ok()) return inner;
      SkipBlanks();
      if (!Take(")")) return Error("expected )");
      return inner;
    }
    return Comparison();
  }

  absl::StatusOr<Filter> Comparison() {
    absl::string_view field = Word();
    field = field.substr(0, std::find_if_not(field.begin(), field.end(), &InField) - field.begin());
    if (field.empty() || !absl::ascii_islower(static_cast<unsigned char>(field[0])))
      return Error("expected the name of a field");
    if (++comparisons_ > kFilterComparisonsMax) return Error("too many comparisons");
    Filter filter{.kind = Filter::Kind::kComparison};
    filter.comparison.field = std::string(field);
    at_ += field.size();
    if (field.back() == '.') {
      ASSIGN_OR_RETURN(std::string part, Quoted());
      filter.comparison.field += part;
    }
    SkipBlanks();
    const std::optional<FilterOperator> op = Operator();
    if (!op.has_value()) return Error("expected one of = != < <= > >= :");
    filter.comparison.op = *op;
    SkipBlanks();
    ASSIGN_OR_RETURN(std::string value, Value());
    filter.comparison.value = std::move(value);
    return filter;
  }

  std::optional<FilterOperator> Operator() {
    if (Take("!=")) return FilterOperator::kNotEqual;
    if (Take("<=")) return FilterOperator::kLessOrEqual;
    if (Take(">=")) return FilterOperator::kGreaterOrEqual;
    if (Take("=")) return FilterOperator::kEqual;
    if (Take("<")) return FilterOperator::kLess;
    if (Take(">")) return FilterOperator::kGreater;
    if (Take(":")) return FilterOperator::kHas;
    return std::nullopt;
  }

  absl::StatusOr<std::string> Value() {
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) return Quoted();
    const absl::string_view word = Word();
    if (word.empty() || IsKeyword(word)) return Error("expected a value");
    at_ += word.size();
    return std::string(word);
  }

  absl::StatusOr<std::string> Quoted() {
    for (const char quote : {'"', '\''}) {
      if (at_ >= text_.size() || text_[at_] != quote) continue;
      std::string value;
      for (size_t i = at_ + 1; i < text_.size(); ++i) {
        if (text_[i] == quote) {
          if (HasControlCharacters(value)) return Error("a quoted value has a control character");
          at_ = i + 1;
          return value;
        }
        if (text_[i] == '\\' && i + 1 < text_.size()) ++i;
        value.push_back(text_[i]);
      }
      return Error("a quoted value has no closing quote");
    }
    return Error("expected a quoted part after the dot");
  }

  const absl::string_view text_;
  size_t at_ = 0;
  size_t comparisons_ = 0;
};

}  // namespace

absl::StatusOr<Filter> ParseFilter(absl::string_view text) {
  if (absl::StripAsciiWhitespace(text).empty()) return Filter();
  if (text.size() > kFilterBytesMax)
    return absl::InvalidArgumentError(absl::StrCat("longer than ", kFilterBytesMax, " bytes"));
  return Parser(text).Parse();
}

absl::Status BindComparisons(Filter& filter,
                             absl::FunctionRef<absl::Status(FilterComparison&)> bind) {
  if (filter.kind == Filter::Kind::kComparison) return bind(filter.comparison);
  for (Filter& operand : filter.operands) RETURN_IF_ERROR(BindComparisons(operand, bind));
  return absl::OkStatus();
}

absl::Status BindTime(FilterComparison& comparison) {
  if (comparison.op != FilterOperator::kHas &&
      absl::ParseTime(absl::RFC3339_full, comparison.value, &comparison.time, nullptr))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(comparison.field,
                   R"( must be compared with a time such as "2026-11-25T00:00:00Z", in quotes)"));
}

absl::Status RequireEquality(const FilterComparison& comparison) {
  if (comparison.op == FilterOperator::kEqual || comparison.op == FilterOperator::kNotEqual)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(comparison.field, " takes only = and !="));
}

bool FilterHolds(const Filter& filter, absl::FunctionRef<bool(const FilterComparison&)> holds) {
  const auto operand_holds = [&](const Filter& operand) { return FilterHolds(operand, holds); };
  switch (filter.kind) {
    case Filter::Kind::kComparison:
      return holds(filter.comparison);
    case Filter::Kind::kAnd:
      return std::all_of(filter.operands.begin(), filter.operands.end(), operand_holds);
    case Filter::Kind::kOr:
      return std::any_of(filter.operands.begin(), filter.operands.end(), operand_holds);
    case Filter::Kind::kNot:
      return !operand_holds(filter.operands.front());
  }
  return false;
}

bool Compares(int order, FilterOperator op) {
  switch (op) {
    case FilterOperator::kEqual:
    case FilterOperator::kHas:
      return order == 0;
    case FilterOperator::kNotEqual:
      return order != 0;
    case FilterOperator::kLess:
      return order < 0;
    case FilterOperator::kLessOrEqual:
      return order <= 0;
    case FilterOperator::kGreater:
      return order > 0;
    case FilterOperator::kGreaterOrEqual:
      return order >= 0;
  }
  return false;
}

namespace {

FilterTimes TimesOf(const FilterComparison& comparison) {
  const absl::Time time = comparison.time;
  const absl::Time after = time + absl::Microseconds(1);
  switch (comparison.op) {
    case FilterOperator::kEqual:
    case FilterOperator::kHas:
      return {time, after};
    case FilterOperator::kLess:
    case FilterOperator::kLessOrEqual:
      return {absl::InfinitePast(), after};
    case FilterOperator::kGreater:
    case FilterOperator::kGreaterOrEqual:
      return {time, absl::InfiniteFuture()};
    case FilterOperator::kNotEqual:
      return {};
  }
  return {};
}

}  // namespace

FilterTimes FilterTimesOf(const Filter& filter, absl::string_view field) {
  if (filter.kind == Filter::Kind::kComparison)
    return filter.comparison.field == field ? TimesOf(filter.comparison) : FilterTimes();
  if (filter.kind == Filter::Kind::kNot || filter.operands.empty()) return {};
  FilterTimes times = FilterTimesOf(filter.operands.front(), field);
  for (const Filter& operand : filter.operands) {
    const FilterTimes other = FilterTimesOf(operand, field);
    const bool both = filter.kind == Filter::Kind::kAnd;
    times.begin = both ? std::max(times.begin, other.begin) : std::min(times.begin, other.begin);
    times.end = both ? std::min(times.end, other.end) : std::max(times.end, other.end);
  }
  return times;
}

void ForEachNeeded(const Filter& filter, absl::FunctionRef<void(const FilterComparison&)> visit) {
  if (filter.kind == Filter::Kind::kComparison) return visit(filter.comparison);
  if (filter.kind != Filter::Kind::kAnd) return;
  for (const Filter& operand : filter.operands) ForEachNeeded(operand, visit);
}

}  // namespace escapement
