#include "common/kv/replica/log_record.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace log_record_test {

// Writes down what it receives.
class Listed final : public WriteSink {
 public:
  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override {
    absl::StrAppend(&text, "put ", Name(cf), " ", key, "=", value, ";");
  }
  void Delete(ColumnFamily cf, absl::string_view key) override {
    absl::StrAppend(&text, "delete ", Name(cf), " ", key, ";");
  }
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override {
    absl::StrAppend(&text, "range ", Name(cf), " ", begin, "..", end, ";");
  }
  std::string text;
};

std::string SomeRow() {
  RecordWriter writer(RecordKind::kBatch);
  writer.Put(ColumnFamily::kEvents, "k", "value");
  writer.Delete(ColumnFamily::kPauseRequests, "gone");
  writer.DeleteRange(ColumnFamily::kDone, "a", "b");
  writer.Put(ColumnFamily::kMeta, "", "");
  return writer.Take();
}

TEST(LogRecord, RowGivesTheWritesThatItReceived) {
  Listed listed;
  ASSERT_TRUE(ApplyRecord(SomeRow(), listed).ok());
  EXPECT_EQ(listed.text,
            "put events k=value;delete pause_requests gone;range done a..b;put meta =;");
}

// Rows are stored: a change of their form would make every log unreadable.
TEST(LogRecord, FormIsThatOfTheFirstVersion) {
  RecordWriter writer(RecordKind::kHandover);
  writer.Put(ColumnFamily::kEvents, "k", "v");
  EXPECT_EQ(writer.Take(), std::string("\4\1\12\0\0\0\1k\0\0\0\1v", 13));
}

TEST(LogRecord, CutOrUnknownRowIsRefused) {
  const std::string row = SomeRow();
  for (size_t size = 0; size < row.size(); ++size) {
    Listed listed;
    const absl::Status status = ApplyRecord(row.substr(0, size), listed);
    // Cut between two writes, a row looks whole: the log's chain covers that.
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << size << status;
  }
  Listed listed;
  EXPECT_TRUE(absl::IsDataLoss(ApplyRecord("", listed)));
  EXPECT_TRUE(absl::IsFailedPrecondition(ApplyRecord("\7", listed)));
  EXPECT_TRUE(absl::IsDataLoss(ApplyRecord(std::string("\2\1\77\0\0\0\0\0\0\0\0", 11), listed)));
  EXPECT_TRUE(absl::IsDataLoss(ApplyRecord(std::string("\2\4\1\0\0\0\0\0\0\0\0", 11), listed)));
}

TEST(LogPlace, ComesBackFromItsBytesAndCountsRows) {
  const LogRow row = NextRow({6, 5}, 3, std::make_shared<const std::string>(SomeRow()));
  LogPlace before{{6, 5}, 2, RecordKind::kLeader, 100};
  const LogPlace place = PlaceBehind(before, row).value();
  EXPECT_EQ(place.position, row.position);
  EXPECT_EQ(place.epoch, 3u);
  EXPECT_EQ(place.kind, RecordKind::kBatch);
  EXPECT_EQ(place.log_bytes, 100 + row.data->size());
  EXPECT_EQ(DecodeLogPlace(EncodeLogPlace(place)).value(), place);
  EXPECT_TRUE(absl::IsDataLoss(DecodeLogPlace("short").status()));
  // A copy of an older program.
  const std::string basic = EncodeLogPlace(place).substr(0, kLogPlaceBasicBytes);
  EXPECT_EQ(DecodeLogPlace(basic).value().position, place.position);
  EXPECT_EQ(DecodeLogPlace(basic).value().proven, LogPosition());
}

TEST(LogPlace, BatchProvesTheRowsBeforeTheBatchBeforeIt) {
  LogPlace place;
  place.position = {0, 5};
  place.genesis = 5;
  std::vector<uint64_t> proven;
  for (RecordKind kind : {RecordKind::kLeader, RecordKind::kBatch, RecordKind::kBatch,
                          RecordKind::kProof, RecordKind::kProof, RecordKind::kBatch,
                          RecordKind::kLeader, RecordKind::kLeader, RecordKind::kBatch}) {
    place =
        PlaceBehind(place, NextRow(place.position, 1,
                                   std::make_shared<const std::string>(RecordWriter(kind).Take())))
            .value();
    proven.push_back(place.proven.seq);
  }
  EXPECT_EQ(proven, (std::vector<uint64_t>{0, 0, 1, 1, 1, 2, 2, 2, 7}));
  EXPECT_EQ(place.genesis, 5u);
  EXPECT_EQ(DecodeLogPlace(EncodeLogPlace(place)).value(), place);
}

}  // namespace log_record_test
}  // namespace escapement::kv
