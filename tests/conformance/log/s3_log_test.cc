// S3SnapshotLog over PostgreSQL: uploads that a trim crosses, faults of S3, and changes of the
// place.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/conformance/log/s3_log_rig.h"

namespace escapement::kv {
namespace s3_log_test {

using nlohmann::json;
using Outcome = AppendResult::Outcome;
using Code = absl::StatusCode;

json Refusal(int status, const std::string& code) { return {{"error", {status, code}}}; }

// Replica 0 leads and trims, replica 1 uploads, replica 2 reads.
class S3LogTest : public testing::Test {
 protected:
  S3LogTest() : led_(rig_.Lead(0, "a")), end_(led_.last) {}
  ~S3LogTest() override {
    for (const char* operation : {"PutObject", "GetObject", "DeleteObject", "ListObjectsV2",
                                  "UploadPart", "CompleteMultipartUpload"})
      server_.Script(operation, json::array({json::object()}));
  }

  LogPosition Append(const std::string& row) {
    const AppendRequest request = Rows(led_.term, end_, {row});
    const AppendResult result = rig_.Append(0, request);
    EXPECT_EQ(result.outcome, Outcome::kAcknowledged) << result.why;
    return end_ = EndOf(request);
  }
  // A snapshot of a new row. Uploads only what is missing.
  absl::Status TryTake(const std::vector<std::string>& contents, size_t replica = 1) {
    Append("row");
    std::vector<SnapshotFile> files;
    for (const std::string& bytes : contents) files.push_back(FileOf(bytes));
    const auto missing = rig_.MissingFiles(replica, files);
    if (!missing.ok()) return missing.status();
    for (const std::string& bytes : contents) {
      if (std::find(missing->begin(), missing->end(), FileOf(bytes)) == missing->end()) continue;
      const absl::Status put = rig_.PutFile(replica, bytes);
      if (!put.ok()) return put;
    }
    return rig_.PutSnapshot(replica, {end_, files, "details"});
  }
  void Take(const std::vector<std::string>& contents, size_t replica = 1) {
    const absl::Status taken = TryTake(contents, replica);
    EXPECT_TRUE(taken.ok()) << taken;
  }
  void TrimAll(uint32_t kept) {
    const absl::Status trimmed = rig_.TrimAll(0, kept);
    EXPECT_TRUE(trimmed.ok()) << trimmed;
  }
  absl::StatusOr<std::string> ReadFile(const std::string& bytes, size_t replica = 2) {
    std::string read;
    for (uint32_t i = 0; i < SnapshotParts(bytes.size()); ++i) {
      auto part = rig_.ReadPart(replica, FileOf(bytes), i);
      if (!part.ok()) return part.status();
      read += *part;
    }
    return read;
  }
  bool IsMissing(const std::string& bytes) {
    return !rig_.MissingFiles(1, {FileOf(bytes)}).value().empty();
  }
  // The objects of this log, by key.
  std::map<std::string, std::string> Objects() {
    std::map<std::string, std::string> objects = server_.Objects(kTestBucket);
    std::erase_if(objects, [this](const auto& object) {
      return !absl::StartsWith(object.first, "prod/" + rig_.pg().store() + "/");
    });
    return objects;
  }
  std::string KeyOf(const std::string& bytes) {
    for (const auto& [key, content] : Objects()) {
      if (absl::StrContains(key, absl::BytesToHexString(FileOf(bytes).hash))) return key;
    }
    return "";
  }
  // Those without a flag for S3.
  S3SnapshotLog::Options NoPlace() {
    S3SnapshotLog::Options options = TestS3Options(rig_.pg().store());
    options.address.clear();
    return options;
  }

  fixtures::S3Server& server_ = TestS3();
  S3Rig rig_;
  const LeadResult led_;
  LogPosition end_;
  const std::string large_ = std::string(2 * kSnapshotPartBytes, 'x') + "end";
};

TEST_F(S3LogTest, FilesAreObjectsAndThePostgresHasOnlyMarks) {
  Take({large_, "small"});
  const auto objects = Objects();
  ASSERT_EQ(objects.size(), 2u);
  for (const auto& [key, content] : objects) {
    const std::vector<std::string> names = absl::StrSplit(key, '/');
    ASSERT_EQ(names.size(), 4u) << key;
    EXPECT_EQ(names[2], absl::StrCat(absl::Hex(led_.first.chain, absl::kZeroPad16)));
    EXPECT_TRUE(absl::StartsWith(names[3], absl::BytesToHexString(FileOf(content).hash) + "-"));
  }
  EXPECT_EQ(TestPostgres().One(
                absl::StrCat("SELECT count(*) || ' ' || max(octet_length(data)) < '300' FROM "
                             "escapement.log_file_parts WHERE store = '",
                             rig_.pg().store(), "'")),
            "t");
  EXPECT_EQ(ReadFile(large_).value(), large_);
}

TEST_F(S3LogTest, PartsMayComeInAnyOrderAndTwice) {
  Append("row");
  std::vector<SnapshotPart> parts = PartsOf(large_);
  for (const size_t i : {2, 0, 0, 2, 1, 1}) {
    const absl::Status put = rig_.PutPart(1, parts.at(i));
    EXPECT_TRUE(put.ok()) << put;
  }
  ASSERT_TRUE(rig_.PutSnapshot(1, {end_, {FileOf(large_)}, ""}).ok());
  EXPECT_EQ(ReadFile(large_).value(), large_);
}

TEST_F(S3LogTest, BrokenRequestsAreMadeAgain) {
  server_.Script(
      "PutObject",
      json::array({Refusal(503, "SlowDown"), {{"cut", 2}}, {{"lose", true}}, json::object()}));
  server_.Script(
      "UploadPart",
      json::array(
          {{{"cut", 1000}}, Refusal(500, "InternalError"), {{"lose", true}}, json::object()}));
  server_.Script("CompleteMultipartUpload", json::array({{{"lose", true}}, json::object()}));
  server_.Script("ListObjectsV2", json::array({Refusal(503, "SlowDown"), json::object()}));
  Take({large_, "small"});
  server_.Script("GetObject", json::array({{{"cut_answer", 1'000'000}},
                                           {{"cut_answer", 1'000'000}},
                                           Refusal(503, "SlowDown"),
                                           json::object()}));
  EXPECT_EQ(ReadFile(large_).value(), large_);
  EXPECT_EQ(ReadFile("small").value(), "small");
}

TEST_F(S3LogTest, UnreachableS3FailsTheSnapshotAndTheNextOneHasAll) {
  server_.Script("UploadPart", json::array({Refusal(503, "SlowDown")}));
  EXPECT_EQ(TryTake({"small", large_}).code(), Code::kUnavailable);
  EXPECT_TRUE(rig_.Snapshots(2).empty());
  EXPECT_TRUE(server_.Uploads(kTestBucket).empty()) << "what was begun is aborted";
  server_.Script("UploadPart", json::array({json::object()}));
  Take({"small", large_});
  EXPECT_EQ(ReadFile(large_).value(), large_);
}

TEST_F(S3LogTest, RefusedCredentialsAreNamedAndDoNoHarm) {
  server_.Script("PutObject", json::array({Refusal(400, "ExpiredToken"), json::object()}));
  absl::Status refused = TryTake({"small"});
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(refused.message(), "ExpiredToken")) << refused;
  server_.Script("PutObject", json::array({Refusal(403, "AccessDenied"), json::object()}));
  EXPECT_EQ(TryTake({"small"}).code(), Code::kFailedPrecondition);
  server_.Script("ListObjectsV2", json::array({Refusal(404, "NoSuchBucket"), json::object()}));
  EXPECT_EQ(TryTake({"small"}).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(rig_.Snapshots(2).empty());
  Take({"small"});
}

TEST_F(S3LogTest, LostObjectIsNotFoundAndTheNextSnapshotPutsItAgain) {
  Take({"small", large_});
  server_.Put(kTestBucket, KeyOf(large_), "cut off");
  EXPECT_EQ(ReadFile(large_).status().code(), Code::kDataLoss);
  server_.Script("GetObject", json::array({Refusal(404, "NoSuchKey"), json::object()}));
  EXPECT_EQ(ReadFile("small").status().code(), Code::kNotFound);
  EXPECT_TRUE(IsMissing(large_));
  EXPECT_FALSE(IsMissing("small"));
  Take({"small", large_});
  TrimAll(1);
  EXPECT_EQ(ReadFile(large_).value(), large_);
}

TEST_F(S3LogTest, UploadThatATrimCrossesIsNotPublished) {
  Append("row");
  ASSERT_TRUE(rig_.PutFile(1, "small").ok());
  TrimAll(1);
  EXPECT_TRUE(Objects().empty());
  EXPECT_EQ(rig_.PutSnapshot(1, {end_, {FileOf("small")}, ""}).code(), Code::kAborted);
  EXPECT_TRUE(rig_.Snapshots(2).empty());
  Take({"small"});
  EXPECT_EQ(ReadFile("small").value(), "small");
}

TEST_F(S3LogTest, FileThatIsTrimmedBeforeItsNextSnapshotIsMissing) {
  Take({"shared"});
  Take({"other"});
  EXPECT_FALSE(IsMissing("shared"));
  TrimAll(1);
  EXPECT_EQ(rig_.PutSnapshot(1, {Append("row"), {FileOf("shared")}, ""}).code(), Code::kAborted);
  EXPECT_TRUE(IsMissing("shared"));
}

TEST_F(S3LogTest, TrimEndsAnUploadThatIsUnderWay) {
  std::vector<SnapshotPart> parts = PartsOf(large_);
  Append("row");
  ASSERT_TRUE(rig_.PutPart(1, parts[0]).ok());
  ASSERT_TRUE(rig_.PutPart(1, parts[1]).ok());
  EXPECT_EQ(server_.Uploads(kTestBucket).size(), 1u);
  TrimAll(1);
  EXPECT_TRUE(server_.Uploads(kTestBucket).empty());
  EXPECT_EQ(rig_.PutPart(1, parts[2]).code(), Code::kAborted);
  Take({large_});
  EXPECT_EQ(ReadFile(large_).value(), large_);
}

// Calls `then` when the last look for marks has been answered.
class LookedUpLog final : public ForwardingLog {
 public:
  LookedUpLog(SharedLog& inner, int looks, std::function<void()> then)
      : ForwardingLog(inner), looks_(looks), then_(std::move(then)) {}
  void MissingFiles(std::vector<SnapshotFile> files,
                    Callback<std::vector<SnapshotFile>> done) override {
    inner_.MissingFiles(std::move(files), [this, done = std::move(done)](const auto& missing) {
      if (--looks_ == 0) then_();
      done(missing);
    });
  }

 private:
  int looks_;
  const std::function<void()> then_;
};

TEST_F(S3LogTest, FileThatIsPutAgainWhileATrimDeletesItStays) {
  Take({"shared"});
  Take({"other"});
  // The trim has decided to delete the object, and stands still.
  bool crossed = false;
  LookedUpLog slow(rig_.pg().log(0), 2, [&] {
    crossed = true;
    EXPECT_TRUE(IsMissing("shared"));
    EXPECT_TRUE(rig_.PutFile(1, "shared").ok());
    EXPECT_TRUE(rig_.PutSnapshot(1, {end_, {FileOf("shared"), FileOf("other")}, ""}).ok());
  });
  rig_.Replace(0, slow);
  Append("row");
  TrimAll(1);
  EXPECT_TRUE(crossed);
  EXPECT_EQ(Objects().size(), 2u);
  EXPECT_EQ(ReadFile("shared").value(), "shared");
  EXPECT_EQ(ReadFile("other").value(), "other");
  rig_.Replace(0, TestS3Options(rig_.pg().store()));  // `slow` ends
}

TEST_F(S3LogTest, UploadThatBeginsWhileATrimLooksIsPublished) {
  Take({"first"});
  Take({"second"});
  bool crossed = false;
  LookedUpLog slow(rig_.pg().log(0), 1, [&] {
    crossed = true;
    EXPECT_TRUE(rig_.PutFile(1, "new").ok());
  });
  rig_.Replace(0, slow);
  Append("row");
  TrimAll(1);
  EXPECT_TRUE(crossed);
  EXPECT_TRUE(rig_.PutSnapshot(1, {end_, {FileOf("new")}, ""}).ok());
  EXPECT_EQ(ReadFile("new").value(), "new");
  rig_.Replace(0, TestS3Options(rig_.pg().store()));  // `slow` ends
}

TEST_F(S3LogTest, ObjectsOfOtherLogsAndOtherNamesStay) {
  Take({"small"});
  const std::string own = KeyOf("small");
  const std::string folder = own.substr(0, own.rfind('/'));
  const std::string other_log =
      folder.substr(0, folder.rfind('/')) + "/0" + own.substr(folder.size());
  for (const std::string& key : {folder + "/readme", other_log}) server_.Put(kTestBucket, key, "x");
  Take({"other"});
  TrimAll(1);
  EXPECT_EQ(Objects().size(), 3u);
  EXPECT_EQ(KeyOf("small"), other_log);
}

TEST_F(S3LogTest, StoreWithoutTheFlagNamesWhatItLacks) {
  Take({"small"});
  rig_.Replace(2, NoPlace());
  ASSERT_EQ(rig_.Snapshots(2).size(), 1u);
  EXPECT_EQ(rig_.Snapshots(2)[0].files, std::vector<SnapshotFile>{FileOf("small")});
  EXPECT_EQ(rig_.Snapshots(2)[0].details, "details");
  const auto read = ReadFile("small");
  EXPECT_EQ(read.status().code(), Code::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(read.status().message(), "s3://snapshots/prod/")) << read.status();
  EXPECT_TRUE(absl::StrContains(read.status().message(), "--snapshots")) << read.status();
}

TEST_F(S3LogTest, SnapshotsOfBothPlacesAreReadable) {
  rig_.Replace(1, NoPlace());
  Take({"old", "shared"});
  EXPECT_TRUE(Objects().empty());
  rig_.Replace(1, TestS3Options(rig_.pg().store()));
  Take({"new", "shared"});
  for (const char* bytes : {"old", "new", "shared"}) EXPECT_EQ(ReadFile(bytes).value(), bytes);
  rig_.Replace(2, NoPlace());
  for (const char* bytes : {"old", "shared"}) EXPECT_EQ(ReadFile(bytes).value(), bytes);
  // Back: a trim without the flag leaves objects, one with it finds them.
  rig_.Replace(0, NoPlace());
  rig_.Replace(1, NoPlace());
  Take({"newest", "shared"});
  TrimAll(1);
  EXPECT_EQ(ReadFile("shared").value(), "shared");
  EXPECT_EQ(Objects().size(), 2u);
  rig_.Replace(0, TestS3Options(rig_.pg().store()));
  TrimAll(1);
  EXPECT_TRUE(Objects().empty());
}

TEST_F(S3LogTest, SnapshotsOfAFormerBucketAreReadable) {
  Take({"shared"});
  S3SnapshotLog::Options options = TestS3Options(rig_.pg().store());
  options.address = "s3://another-bucket";
  for (const size_t replica : {0, 1, 2}) rig_.Replace(replica, options);
  EXPECT_EQ(ReadFile("shared").value(), "shared");
  EXPECT_TRUE(IsMissing("shared"));
  Take({"shared", "new"});
  TrimAll(1);
  EXPECT_EQ(server_.Objects("another-bucket").size(), 2u);
  EXPECT_EQ(ReadFile("shared").value(), "shared");
  EXPECT_EQ(Objects().size(), 1u) << "a trim deletes only at its own address";
}

TEST_F(S3LogTest, AppendsDoNotWaitForS3AndTheEndDoesNotEither) {
  const auto before = server_.Requests("PutObject").size();
  server_.Script("PutObject", json::array({{{"hang", true}}, json::object()}));
  auto put = std::make_shared<LogAnswer<absl::Status>>();
  rig_.log(1).PutPart(PartsOf("small")[0], LogAnswer<absl::Status>::Into(put));
  auto listed = std::make_shared<LogAnswer<absl::StatusOr<std::vector<SnapshotFile>>>>();
  rig_.log(1).MissingFiles({}, decltype(listed)::element_type::Into(listed));
  server_.AwaitRequests("PutObject", static_cast<int>(before) + 1);
  Append("row");
  EXPECT_TRUE(rig_.Read(1, {.after = led_.last}).ok());
  EXPECT_TRUE(rig_.Snapshots(1).empty());
  rig_.Replace(1, TestS3Options(rig_.pg().store()));
  EXPECT_EQ(rig_.Wait(put).code(), Code::kCancelled);
  EXPECT_EQ(rig_.Wait(listed).status().code(), Code::kCancelled);
}

}  // namespace s3_log_test
}  // namespace escapement::kv
