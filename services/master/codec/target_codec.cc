#include "services/master/codec/target_codec.h"

#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace escapement::master {
namespace {

// The kinds of targets, and how each is validated, stored and shown.
struct KindRow {
  absl::string_view name;  // the field's name in both messages
  v1::Target::KindCase kind;
  storage::v1::TargetRecord::KindCase record_kind;
  ReadTargetKind* read;
  WriteTargetKind* write;
};
constexpr std::array kKinds = {
    KindRow{"http", v1::Target::kHttp, storage::v1::TargetRecord::kHttp, &ReadHttp, &WriteHttp},
    KindRow{"grpc", v1::Target::kGrpc, storage::v1::TargetRecord::kGrpc, &ReadGrpc, &WriteGrpc},
    KindRow{"sqs", v1::Target::kSqs, storage::v1::TargetRecord::kSqs, &ReadSqs, &WriteSqs},
    KindRow{"kafka", v1::Target::kKafka, storage::v1::TargetRecord::kKafka, &ReadKafka,
            &WriteKafka},
    KindRow{"slack", v1::Target::kSlack, storage::v1::TargetRecord::kSlack, &ReadSlack,
            &WriteSlack},
    KindRow{"email", v1::Target::kEmail, storage::v1::TargetRecord::kEmail, &ReadEmail,
            &WriteEmail},
    KindRow{"ping", v1::Target::kPing, storage::v1::TargetRecord::kPing, &ReadPing, &WritePing},
};

// Returns null if no row has this kind.
template <typename Kind>
const KindRow* FindKind(Kind KindRow::*column, Kind kind) {
  for (const KindRow& row : kKinds) {
    if (row.*column == kind) return &row;
  }
  return nullptr;
}

}  // namespace

storage::v1::TargetRecord ReadTarget(const v1::Target& target, absl::string_view field,
                                     FieldViolations& violations) {
  storage::v1::TargetRecord record;
  const KindRow* row = FindKind(&KindRow::kind, target.kind_case());
  if (row == nullptr) {
    const auto name = [](std::string* out, const KindRow& kind) {
      absl::StrAppend(out, kind.name);
    };
    violations.Add(field, absl::StrCat("is required: set ", absl::StrJoin(kKinds, " or ", name)));
  } else {
    row->read(target, absl::StrCat(field, ".", row->name), record, violations);
  }
  return record;
}

void WriteTarget(const storage::v1::TargetRecord& record, v1::Target& target) {
  const KindRow* row = FindKind(&KindRow::record_kind, record.kind_case());
  if (row != nullptr) row->write(record, target);
}

}  // namespace escapement::master
