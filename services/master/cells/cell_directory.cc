#include "services/master/cells/cell_directory.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "services/master/base/errors.h"

namespace escapement::master {

using storage::v1::CellRecord;

std::string NameOfCell(uint32_t cell) { return absl::StrCat("cells/", cell); }

absl::StatusOr<uint32_t> ParseCellName(absl::string_view name, absl::string_view field) {
  absl::string_view number = name;
  uint32_t cell = 0;
  if (!absl::ConsumePrefix(&number, "cells/") || !absl::SimpleAtoi(number, &cell) ||
      cell >= kv::kCellsMax || name != NameOfCell(cell))
    return InvalidField(field, absl::StrCat("must be cells/{0 to ", kv::kCellsMax - 1, "}"));
  return cell;
}

storage::v1::CellRecord HomeCellRecord() {
  storage::v1::CellRecord record;
  record.set_cell(kHomeCell);
  record.set_weight(1);
  return record;
}

absl::StatusOr<std::optional<CellRecord>> ReadCellRecord(uint32_t cell,
                                                         const std::optional<std::string>& bytes) {
  if (!bytes.has_value()) {
    if (cell == kHomeCell) return HomeCellRecord();
    return std::nullopt;
  }
  CellRecord record;
  if (!record.ParseFromString(*bytes)) return BrokenRecord(NameOfCell(cell));
  return record;
}

absl::Status CheckTakesTenants(uint32_t cell, const std::optional<std::string>& bytes) {
  ASSIGN_OR_RETURN(const auto record, ReadCellRecord(cell, bytes));
  const std::string name = NameOfCell(cell);
  if (!record.has_value()) {
    return FailedPrecondition("CELL_NOT_FOUND", absl::StrCat(name, " does not exist"),
                              {{"resource", name}});
  }
  if (!record->draining()) return absl::OkStatus();
  return FailedPrecondition("CELL_DRAINING", absl::StrCat(name, " takes no new tenants"),
                            {{"resource", name}});
}

std::optional<uint32_t> ChooseCell(const std::vector<storage::v1::CellRecord>& cells,
                                   const TenantCounts& tenants,
                                   absl::FunctionRef<bool(uint32_t cell)> served) {
  std::optional<uint32_t> best;
  double least = 0;
  for (const storage::v1::CellRecord& cell : cells) {
    if (cell.draining() || !served(cell.cell())) continue;
    const auto count = tenants.find(cell.cell());
    const double load =
        (count == tenants.end() ? 0.0 : static_cast<double>(count->second)) / cell.weight();
    if (best.has_value() && load >= least) continue;
    best = cell.cell();
    least = load;
  }
  return best;
}

CellDirectory::CellDirectory(kv::KvClient& client, std::shared_ptr<Executor> executor)
    : mirror_(client, kv::ColumnFamily::kMeta,
              {std::string(kCellPrefix), PrefixEnd(std::string(kCellPrefix))}, std::move(executor),
              [this](const kv::RangeMirror::Rows& rows) { Take(rows); }),
      cells_({HomeCellRecord()}) {}

void CellDirectory::Take(const kv::RangeMirror::Rows& rows) {
  std::vector<storage::v1::CellRecord> cells = {HomeCellRecord()};
  for (const auto& [key, value] : rows) {
    storage::v1::CellRecord record;
    if (!record.ParseFromString(value)) continue;
    if (record.cell() == kHomeCell) cells.clear();
    cells.push_back(std::move(record));
  }
  {
    absl::MutexLock lock(&mutex_);
    cells_ = std::move(cells);
    loaded_ = true;
  }
  if (on_change_) on_change_();
}

bool CellDirectory::loaded() const {
  absl::MutexLock lock(&mutex_);
  return loaded_;
}

std::vector<storage::v1::CellRecord> CellDirectory::All() const {
  absl::MutexLock lock(&mutex_);
  return cells_;
}

}  // namespace escapement::master
