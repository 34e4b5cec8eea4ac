#include "common/kv/snapshot_file/snapshot_file.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace snapshot_file_test {

std::string NewFolder() {
  const char* base = getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(base != nullptr ? base : "/tmp", "/snapshot-file-XXXXXX");
  return mkdtemp(path.data());
}

void Write(const std::string& folder, const std::string& name, const std::string& text) {
  std::ofstream(absl::StrCat(folder, "/", name), std::ios::binary) << text;
}

std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().filename()] = text.str();
  }
  return files;
}

std::string FileOf(const std::string& folder) {
  SnapshotFileWriter writer(folder);
  std::string file;
  while (true) {
    const auto chunk = writer.Next();
    EXPECT_TRUE(chunk.ok()) << chunk.status();
    if (!chunk.ok() || chunk->empty()) return file;
    EXPECT_LE(chunk->size(), SnapshotFileWriter::kChunkBytesMax + 500);
    file += *chunk;
  }
}

absl::Status Read(const std::string& file, const std::string& folder, size_t piece = 1000) {
  SnapshotFileReader reader(folder);
  for (size_t begin = 0; begin < file.size(); begin += piece) {
    if (auto status = reader.Take(absl::string_view(file).substr(begin, piece)); !status.ok())
      return status;
  }
  return reader.Finish();
}

std::string SmallFolder() {
  std::string folder = NewFolder();
  Write(folder, "CURRENT", "MANIFEST-1\n");
  Write(folder, "000001.sst", std::string("\0\1\2", 3));
  Write(folder, "empty", "");
  return folder;
}

TEST(SnapshotFile, AFolderComesBackAsItWas) {
  const std::string folder = SmallFolder();
  Write(folder, "000002.sst", std::string(SnapshotFileWriter::kChunkBytesMax, 'x'));
  Write(folder, "000003.sst", std::string(2'500'000, 'y'));
  const auto expected = FilesOf(folder);
  Write(folder, "LOCK", "not part of the state");
  Write(folder, "LOG.old.1", "nor this");
  const std::string file = FileOf(folder);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{1} << 20, file.size()}) {
    const std::string read = NewFolder();
    const absl::Status status = Read(file, read, piece);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(FilesOf(read), expected) << "in pieces of " << piece;
    EXPECT_TRUE(Read(file, "", piece).ok());
  }
}

TEST(SnapshotFile, AnEmptyFolderIsASnapshot) {
  EXPECT_TRUE(Read(FileOf(NewFolder()), NewFolder()).ok());
}

TEST(SnapshotFile, EveryWrongByteIsNoticed) {
  const std::string file = FileOf(SmallFolder());
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x11);
    EXPECT_FALSE(Read(damaged, NewFolder()).ok()) << "byte " << i;
    EXPECT_FALSE(Read(damaged, "").ok()) << "byte " << i << " of a file that is only checked";
  }
}

TEST(SnapshotFile, EveryMissingEndIsNoticed) {
  const std::string file = FileOf(SmallFolder());
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_EQ(Read(file.substr(0, bytes), NewFolder()).code(), absl::StatusCode::kDataLoss)
        << bytes << " bytes";
  }
  EXPECT_EQ(Read(file + "x", NewFolder()).code(), absl::StatusCode::kDataLoss);
}

TEST(SnapshotFile, OtherFilesAndNewerOnesAreRefused) {
  EXPECT_EQ(Read(std::string(100, 'z'), NewFolder()).code(), absl::StatusCode::kDataLoss);
  std::string newer = FileOf(SmallFolder());
  newer[23] = 2;
  EXPECT_EQ(Read(newer, NewFolder()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST(SnapshotFile, NoNameLeavesTheFolder) {
  std::string file = FileOf(SmallFolder());
  const size_t at = file.find("000001.sst");
  ASSERT_NE(at, std::string::npos);
  const std::string outside = NewFolder();
  file.replace(at, 10, "../evil.ss");
  EXPECT_EQ(Read(file, outside).code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(std::filesystem::exists(outside + "/../evil.ss"));
}

}  // namespace snapshot_file_test
}  // namespace escapement::kv
