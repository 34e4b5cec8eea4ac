#include "common/kv/rocks/rocks_memtable.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"

namespace escapement::kv {
namespace rocks_memtable_test {

std::unique_ptr<rocksdb::DB> Open(const std::string& name) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.allow_concurrent_memtable_write = false;
  options.write_buffer_size = 64 << 20;
  options.memtable_factory = NewMemtableFactory();
  rocksdb::DB* db = nullptr;
  const auto status = rocksdb::DB::Open(options, ::testing::TempDir() + "/" + name, &db);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return std::unique_ptr<rocksdb::DB>(db);
}

using Rows = std::map<std::string, std::string>;

std::string RandomKey(std::mt19937& random) {
  // Keys with zero bytes or bytes above 127, long keys, and keys that are prefixes of others. Some
  // differ only in a few bytes before or behind the 16th.
  if (random() % 4 == 0) {
    std::string key(12, 'k');
    while (random() % 8 != 0) key.push_back(random() % 2 == 0 ? '\0' : 'k');
    return key;
  }
  std::string key(random() % 5 == 0 ? 150 : random() % 4, 'k');
  for (char& c : key) c = random() % 3 == 0 ? static_cast<char>(random() % 256) : 'k';
  return key;
}

void ExpectSame(rocksdb::DB& db, const rocksdb::Snapshot* snapshot, const Rows& rows,
                std::mt19937& random) {
  rocksdb::ReadOptions read;
  read.snapshot = snapshot;
  std::unique_ptr<rocksdb::Iterator> it(db.NewIterator(read));
  auto expected = rows.begin();
  for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
    ASSERT_NE(expected, rows.end());
    ASSERT_EQ(it->key().ToString(), expected->first);
    ASSERT_EQ(it->value().ToString(), expected->second);
  }
  ASSERT_EQ(expected, rows.end());
  auto backwards = rows.rbegin();
  for (it->SeekToLast(); it->Valid(); it->Prev(), ++backwards)
    ASSERT_EQ(it->key().ToString(), backwards->first);
  ASSERT_EQ(backwards, rows.rend());
  for (int i = 0; i < 200; ++i) {
    const std::string key = RandomKey(random);
    const auto after = rows.lower_bound(key);
    it->Seek(key);
    ASSERT_EQ(it->Valid(), after != rows.end());
    if (it->Valid()) {
      ASSERT_EQ(it->key().ToString(), after->first);
    }
    it->SeekForPrev(key);
    const auto beyond = rows.upper_bound(key);
    ASSERT_EQ(it->Valid(), beyond != rows.begin());
    if (it->Valid()) {
      ASSERT_EQ(it->key().ToString(), std::prev(beyond)->first);
    }
    std::string value;
    const auto status = db.Get(read, key, &value);
    ASSERT_EQ(status.ok(), rows.contains(key)) << status.ToString();
    if (status.ok()) {
      ASSERT_EQ(value, rows.at(key));
    }
  }
}

TEST(RocksMemtableTest, ReadsLikeAMapBeforeAndAfterFlushAndRecovery) {
  std::mt19937 random(1);
  Rows rows;
  Rows former;
  std::unique_ptr<rocksdb::DB> db = Open("map");
  const rocksdb::Snapshot* snapshot = nullptr;
  for (int round = 0; round < 60; ++round) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < 100; ++i) {
      const std::string key = RandomKey(random);
      if (random() % 3 == 0) {
        ASSERT_TRUE(batch.Delete(key).ok());
        rows.erase(key);
      } else {
        const std::string value = std::to_string(random());
        ASSERT_TRUE(batch.Put(key, value).ok());
        rows[key] = value;
      }
    }
    ASSERT_TRUE(db->Write({}, &batch).ok());
    ASSERT_NO_FATAL_FAILURE(ExpectSame(*db, nullptr, rows, random));
    if (snapshot != nullptr) {
      ASSERT_NO_FATAL_FAILURE(ExpectSame(*db, snapshot, former, random));
      db->ReleaseSnapshot(snapshot);
    }
    if (round == 20) {
      ASSERT_TRUE(db->Flush({}).ok());
    }
    snapshot = nullptr;
    if (round % 20 == 15) {
      db.reset();
      db = Open("map");
    } else {
      snapshot = db->GetSnapshot();
      former = rows;
    }
  }
  if (snapshot != nullptr) db->ReleaseSnapshot(snapshot);
}

TEST(RocksMemtableTest, ReadersSeeWholeCommitsInOrderWhileOneThreadWrites) {
  constexpr int kKeys = 500;
  constexpr int kRounds = 400;
  std::unique_ptr<rocksdb::DB> db = Open("readers");
  const auto key_of = [](int i) { return std::to_string(i * 7919 % 10'007); };
  std::atomic<bool> done = false;
  std::atomic<int> scans = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      int last = 0;
      while (!done || scans < 2) {
        std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
        int rows = 0;
        std::string first;
        std::string before;
        for (it->SeekToFirst(); it->Valid(); it->Next(), ++rows) {
          if (rows == 0) first = it->value().ToString();
          EXPECT_EQ(it->value().ToString(), first) << "a commit is seen whole";
          EXPECT_LT(before, it->key().ToString());
          before = it->key().ToString();
        }
        EXPECT_TRUE(rows == 0 || rows == kKeys);
        const int round = first.empty() ? 0 : std::stoi(first);
        EXPECT_GE(round, last);
        last = round;
        std::string value;
        if (db->Get({}, key_of(round % kKeys), &value).ok()) {
          EXPECT_GE(std::stoi(value), round);
        }
        ++scans;
      }
    });
  }
  for (int round = 1; round <= kRounds; ++round) {
    rocksdb::WriteBatch batch;
    for (int i = 0; i < kKeys; ++i) ASSERT_TRUE(batch.Put(key_of(i), std::to_string(round)).ok());
    ASSERT_TRUE(db->Write({}, &batch).ok());
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(scans, 2);
}

}  // namespace rocks_memtable_test
}  // namespace escapement::kv
