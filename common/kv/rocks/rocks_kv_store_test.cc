// Tests of RocksKvStore alone; tests/conformance tests the contract.

#include "common/kv/rocks/rocks_kv_store.h"

#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/kv/layout.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/runtime/system_runtime.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace rocks_kv_store_test {

namespace fs = std::filesystem;

template <typename T>
std::pair<KvStore::Callback<T>, std::future<absl::StatusOr<T>>> Awaited() {
  auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
  auto future = promise->get_future();
  return {[promise](absl::StatusOr<T> result) { promise->set_value(std::move(result)); },
          std::move(future)};
}

class RocksKvStoreTest : public testing::Test {
 protected:
  RocksKvStoreTest() {
    std::string path = absl::StrCat(getenv("TEST_TMPDIR"), "/rocks-XXXXXX");
    folder_ = mkdtemp(path.data());
  }
  ~RocksKvStoreTest() override { fs::remove_all(folder_); }

  absl::StatusOr<std::unique_ptr<RocksKvStore>> Open(bool accept_loss = false) {
    RocksKvStore::Options options;
    options.data_dir = folder_;
    options.accept_loss = accept_loss;
    options.write_buffer_bytes = 1 << 20;
    options.block_cache_bytes = 1 << 20;
    options.free_bytes_min = 1000;
    options.free_bytes = [this](const std::string&) { return free_bytes_.load(); };
    return RocksKvStore::Open(std::move(options), runtime_.clock());
  }
  static absl::StatusOr<SessionInfo> OpenSession(RocksKvStore& store, uint64_t incarnation = 0,
                                                 CommitSeq seen = 0) {
    auto [callback, future] = Awaited<SessionInfo>();
    store.OpenSession(incarnation, seen, callback);
    return future.get();
  }
  static absl::StatusOr<CommitResult> Put(RocksKvStore& store, uint64_t session, uint64_t number,
                                          const std::string& value = "v") {
    CommitRequest request;
    request.session = session;
    request.number = number;
    request.groups.resize(1);
    request.groups[0].mutations.push_back({ColumnFamily::kEvents, Mutation::Kind::kPut,
                                           absl::StrCat("k", number), value, 0,
                                           absl::ZeroDuration()});
    auto [callback, future] = Awaited<CommitResult>();
    store.Commit(std::move(request), callback);
    return future.get();
  }

  SystemRuntime runtime_;
  std::string folder_;
  std::atomic<uint64_t> free_bytes_{1'000'000};
};

TEST_F(RocksKvStoreTest, DatabaseBehindItsWitnessIsRefusedUnlessLossIsAccepted) {
  auto store = Open().value();
  const SessionInfo info = OpenSession(*store).value();
  ASSERT_TRUE(Put(*store, info.session, 1).ok());
  store.reset();
  fs::copy(folder_ + "/db", folder_ + "/backup", fs::copy_options::recursive);
  store = Open().value();
  ASSERT_TRUE(Put(*store, info.session, 2).ok());
  store.reset();
  // An old copy replaces the data; the witness stays.
  fs::remove_all(folder_ + "/db");
  fs::rename(folder_ + "/backup", folder_ + "/db");
  EXPECT_TRUE(absl::IsDataLoss(Open().status()));
  store = Open(/*accept_loss=*/true).value();
  const SessionInfo after = OpenSession(*store, info.incarnation, 2).value();
  EXPECT_GT(after.incarnation, info.incarnation);
  EXPECT_EQ(after.seq, 1);
  EXPECT_TRUE(absl::IsAborted(Put(*store, info.session, 3).status()))
      << "sessions of before are gone";
  ASSERT_TRUE(Put(*store, after.session, 1).ok());
  store.reset();
  EXPECT_TRUE(Open().ok());
}

TEST_F(RocksKvStoreTest, AnEmptyDatabaseBesideAWitnessIsALoss) {
  auto store = Open().value();
  ASSERT_TRUE(Put(*store, OpenSession(*store).value().session, 1).ok());
  store.reset();
  fs::remove_all(folder_ + "/db");
  EXPECT_TRUE(absl::IsDataLoss(Open().status()));
}

// If a log loses its end, nothing tells the store that a session had been opened there.
TEST_F(RocksKvStoreTest, LostSessionNumberIsNeverReused) {
  auto store = Open().value();
  const SessionInfo first = OpenSession(*store).value();
  ASSERT_TRUE(Put(*store, first.session, 1).ok());
  store.reset();
  fs::copy(folder_ + "/db", folder_ + "/before", fs::copy_options::recursive);
  store = Open().value();
  const SessionInfo lost = OpenSession(*store).value();
  store.reset();
  fs::remove_all(folder_ + "/db");
  fs::rename(folder_ + "/before", folder_ + "/db");
  store = Open().value();
  const SessionInfo other = OpenSession(*store, first.incarnation, first.seq).value();
  EXPECT_NE(other.session, lost.session);
  EXPECT_NE(other.session, first.session);
  ASSERT_TRUE(Put(*store, other.session, 1).ok());
  EXPECT_TRUE(absl::IsAborted(Put(*store, lost.session, 1).status())) << "another client's answer";
  EXPECT_TRUE(Put(*store, first.session, 1).ok());
}

TEST_F(RocksKvStoreTest, AnotherFormatIsRefusedAndStaysUnchanged) {
  const uint64_t incarnation = Open().value()->info().incarnation;
  auto set_format = [this](uint32_t version) {
    std::string bytes;
    AppendBigEndian<uint32_t>(&bytes, version);
    RocksDatabase::Options options;
    options.on_fatal = [](const absl::Status&) { std::abort(); };
    auto database = RocksDatabase::Open(folder_ + "/db", options).value();
    database->batch().Put(ColumnFamily::kMeta, kFormatKey, bytes);
    database->Write();
  };
  for (uint32_t version : {kFormatVersion - 1, kFormatVersion + 1}) {
    set_format(version);
    for (bool accept_loss : {false, true}) {
      const absl::Status refused = Open(accept_loss).status();
      EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
      EXPECT_TRUE(absl::StrContains(refused.message(), absl::StrCat("has format ", version)))
          << refused;
      EXPECT_TRUE(absl::StrContains(refused.message(), "empty data folder")) << refused;
    }
  }
  set_format(kFormatVersion);
  EXPECT_EQ(Open().value()->info().incarnation, incarnation);
}

TEST_F(RocksKvStoreTest, FullDiskRefusesCommitsUntilThereIsRoom) {
  auto store = Open().value();
  const uint64_t session = OpenSession(*store).value().session;
  free_bytes_ = 999;
  // The store asks the file system again only after many bytes.
  uint64_t number = 0;
  absl::Status status;
  while (status.ok() && number < 100)
    status = Put(*store, session, ++number, std::string(1 << 20, 'x')).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_FALSE(store->info().accepting);
  const CommitSeq seq = store->info().seq;
  EXPECT_EQ(seq, number - 1);
  free_bytes_ = 1'000'000;
  EXPECT_TRUE(absl::IsResourceExhausted(Put(*store, session, number).status()))
      << "a resend is answered as before";
  EXPECT_EQ(Put(*store, session, number + 1).value().seq, seq + 1);
  EXPECT_TRUE(store->info().accepting);
}

TEST_F(RocksKvStoreTest, FullDiskIsAnErrorAtTheStart) {
  free_bytes_ = 100'000;
  const absl::Status refused = Open().status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), absl::StrCat("the disk of ", folder_)))
      << refused;
  free_bytes_ = 1'000'000;
  {
    auto store = Open().value();
    const uint64_t session = OpenSession(*store).value().session;
    ASSERT_TRUE(Put(*store, session, 1, std::string(600'000, 'x')).ok());
  }
  // The content of the log becomes tables on opening.
  free_bytes_ = 900'000;
  EXPECT_TRUE(absl::IsResourceExhausted(Open().status()));
  free_bytes_ = 2'000'000;
  EXPECT_TRUE(Open().ok());
}

TEST_F(RocksKvStoreTest, OnlyOneStoreOpensAFolder) {
  auto store = Open().value();
  EXPECT_TRUE(absl::IsUnavailable(Open().status())) << Open().status();
}

TEST_F(RocksKvStoreTest, ManyCommitsShareOneSync) {
  auto store = Open().value();
  const uint64_t session = OpenSession(*store).value().session;
  const uint64_t syncs = store->info().syncs;
  std::vector<std::future<absl::StatusOr<CommitResult>>> answers;
  for (uint64_t number = 1; number <= 1000; ++number) {
    CommitRequest request;
    request.session = session;
    request.number = number;
    request.groups.resize(1);
    request.groups[0].mutations.push_back({ColumnFamily::kEvents, Mutation::Kind::kPut,
                                           absl::StrCat("k", number), "", 0, absl::ZeroDuration()});
    auto [callback, future] = Awaited<CommitResult>();
    store->Commit(std::move(request), callback);
    answers.push_back(std::move(future));
  }
  for (uint64_t number = 1; number <= 1000; ++number)
    EXPECT_EQ(answers[number - 1].get().value().seq, number);
  EXPECT_LT(store->info().syncs - syncs, 500);
}

// One iterator reads all ranges. The rows are in memory and in several tables of many blocks.
TEST_F(RocksKvStoreTest, ScanOfManyRangesStopsAtEachRangesEnd) {
  constexpr int kRows = 9000;
  const auto key_of = [](int i) { return absl::StrCat("k", absl::Dec(i, absl::kZeroPad5)); };
  std::unique_ptr<RocksKvStore> store;
  for (int part = 0; part < 3; ++part) {  // a start writes the log's content into a table
    store.reset();
    store = Open().value();
    CommitRequest request;
    request.session = OpenSession(*store).value().session;
    request.number = 1;
    request.groups.resize(1);
    for (int i = part; i < kRows; i += 3) {
      request.groups[0].mutations.push_back({ColumnFamily::kChildren, Mutation::Kind::kPut,
                                             key_of(i), std::string(100, 'v'), 0,
                                             absl::ZeroDuration()});
    }
    auto [callback, future] = Awaited<CommitResult>();
    store->Commit(std::move(request), callback);
    ASSERT_TRUE(future.get().ok());
  }
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    // Ranges beside each other, inside a block, over many blocks, and empty.
    std::vector<KeyRange> ranges;
    std::vector<std::string> expected;
    for (int at = static_cast<int>(random() % 200); at < kRows && ranges.size() < 300;) {
      const int end = at + static_cast<int>(random() % (round % 2 == 0 ? 5 : 300));
      ranges.push_back({key_of(at), key_of(end)});
      for (; at < std::min(end, kRows); ++at) expected.push_back(key_of(at));
      at += static_cast<int>(random() % 3) * static_cast<int>(random() % 100);
    }
    ScanRequest request{.cf = ColumnFamily::kChildren, .limit = 100'000, .keys_only = true};
    request.begin = ranges[0].begin;
    request.end = ranges[0].end;
    request.then.assign(ranges.begin() + 1, ranges.end());
    auto [callback, future] = Awaited<ScanResult>();
    store->Scan(std::move(request), callback);
    const absl::StatusOr<ScanResult> result = future.get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_FALSE(result->more);
    std::vector<std::string> found;
    for (const Entry& entry : result->entries) found.push_back(entry.key);
    ASSERT_EQ(found, expected) << round;
  }
}

}  // namespace rocks_kv_store_test
}  // namespace escapement::kv
