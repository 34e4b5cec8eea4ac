#include "services/master/cells/cell_directory.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/key_codec.h"
#include "common/kv/layout.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"

namespace escapement::master {

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
