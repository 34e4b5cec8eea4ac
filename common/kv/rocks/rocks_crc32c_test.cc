#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"

// The linker also replaces RocksDB's function in this test; `__real` is RocksDB's own.
namespace rocksdb::crc32c {
uint32_t Extend(uint32_t crc, const char* data, size_t bytes);
}
extern "C" uint32_t __wrap__ZN7rocksdb6crc32c6ExtendEjPKcm(uint32_t crc, const char* data,
                                                           size_t bytes);
extern "C" uint32_t __real__ZN7rocksdb6crc32c6ExtendEjPKcm(uint32_t crc, const char* data,
                                                           size_t bytes);

namespace escapement::kv {
namespace rocks_crc32c_test {

uint32_t Ours(uint32_t crc, const std::string& data) {
  return rocksdb::crc32c::Extend(crc, data.data(), data.size());
}

TEST(RocksCrc32cTest, ReplacesRocksDbsThroughTheLinker) {
  EXPECT_EQ(&rocksdb::crc32c::Extend, &__wrap__ZN7rocksdb6crc32c6ExtendEjPKcm);
  EXPECT_NE(&rocksdb::crc32c::Extend, &__real__ZN7rocksdb6crc32c6ExtendEjPKcm);
}

TEST(RocksCrc32cTest, EqualsTheChecksumOfRfc3720) {
  std::string ascending;
  std::string descending;
  for (int i = 0; i < 32; ++i) {
    ascending.push_back(static_cast<char>(i));
    descending.push_back(static_cast<char>(31 - i));
  }
  EXPECT_EQ(Ours(0, std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Ours(0, std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Ours(0, ascending), 0x46dd794eu);
  EXPECT_EQ(Ours(0, descending), 0x113fdb5cu);
  EXPECT_EQ(Ours(0, "123456789"), 0xe3069283u);
}

TEST(RocksCrc32cTest, EqualsRocksDbsForAnyLengthOffsetAndSeed) {
  std::mt19937 random(1);
  std::string bytes(70'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (int i = 0; i < 3000; ++i) {
    const size_t from = random() % 64;
    const size_t size = i < 1000 ? i : random() % (bytes.size() - from);
    const auto crc = static_cast<uint32_t>(random());
    ASSERT_EQ(Ours(crc, bytes.substr(from, size)),
              __real__ZN7rocksdb6crc32c6ExtendEjPKcm(crc, bytes.data() + from, size))
        << size << " bytes from " << from;
  }
}

TEST(RocksCrc32cTest, ChecksumOfTwoPartsIsThatOfTheWhole) {
  const std::string whole = "of the log each byte goes through one";
  for (size_t cut = 0; cut <= whole.size(); ++cut)
    EXPECT_EQ(Ours(Ours(0, whole.substr(0, cut)), whole.substr(cut)), Ours(0, whole));
}

// Reading what was written does not show that anything is checked, because one function makes and
// checks all checksums. Finding damage does.
TEST(RocksCrc32cTest, FindsADamagedLog) {
  const std::string path = ::testing::TempDir() + "/crc32c";
  rocksdb::Options options;
  options.create_if_missing = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  options.avoid_flush_during_recovery = true;
  const auto open = [&](std::unique_ptr<rocksdb::DB>* db) {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, path, &opened);
    db->reset(opened);
    return status;
  };
  std::unique_ptr<rocksdb::DB> db;
  ASSERT_TRUE(open(&db).ok());
  ASSERT_TRUE(db->Put({}, "key", std::string(3000, 'v')).ok());
  rocksdb::VectorLogPtr logs;
  ASSERT_TRUE(db->GetSortedWalFiles(logs).ok());
  ASSERT_EQ(logs.size(), 1u);
  const std::string log = path + logs.front()->PathName();
  db.reset();

  ASSERT_TRUE(open(&db).ok());
  std::string value;
  ASSERT_TRUE(db->Get({}, "key", &value).ok());
  EXPECT_EQ(value, std::string(3000, 'v'));
  db.reset();

  std::string content;
  ASSERT_TRUE(rocksdb::ReadFileToString(rocksdb::Env::Default(), log, &content).ok());
  ASSERT_GT(content.size(), 2000u);
  content[1500] ^= 1;
  ASSERT_TRUE(rocksdb::WriteStringToFile(rocksdb::Env::Default(), content, log).ok());
  EXPECT_TRUE(open(&db).IsCorruption());
}

}  // namespace rocks_crc32c_test
}  // namespace escapement::kv
