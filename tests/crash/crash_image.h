// CrashImage: a possible content of the disk after the power was lost in the middle of a
// DiskRecord.
//
// Synced content of a file is always there. Content written since the last sync has one of these
// fates: none of it is there; all of it; the bytes before some byte (then zeros or garbage up to
// the next page); or any of its 4 KiB pages. Names (files made, renamed, removed) follow one of
// three rules, from the mildest to the harshest:
// - kJournal: the changes up to some operation are there. Every sync of anything makes all earlier
// names durable (ext4, xfs).
// - kFolders: the same for each folder separately. Only a sync of the folder makes its names
// durable, so a synced file may have no name.
// - kNames: each name separately. A rename happens as a whole, and not before the earlier changes
// of its names.
//
// The same seed over the same record gives the same image.

#ifndef TESTS_CRASH_CRASH_IMAGE_H_
#define TESTS_CRASH_CRASH_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/crash/disk_record.h"

namespace escapement::crash {

enum class NameRule : uint8_t { kJournal, kFolders, kNames };
enum class TailRule : uint8_t { kNothing, kAll, kTorn, kTornZeros, kTornGarbage, kPages };
inline constexpr size_t kNameRules = 3;
inline constexpr size_t kTailRules = 6;
absl::string_view NameOf(NameRule rule);
absl::string_view NameOf(TailRule rule);

struct CrashImage {
  DiskContent content;
  size_t at = 0;         // number of operations that had happened
  uint64_t answers = 0;  // number of answers that had been given
  NameRule names = NameRule::kJournal;
  TailRule tails = TailRule::kNothing;
  // How much of the disk was left to chance. If both are 0, the image is that of a process that
  // simply ended.
  size_t unsynced_files = 0;
  size_t unsynced_names = 0;
  // The unsynced end of a MANIFEST came back with other bytes than were written, zeros among them.
  // File systems that write a file's size after its data do not do that (ext4 except with
  // data=writeback, xfs). RocksDB refuses to open such a file.
  bool garbage_in_manifest = false;
};

// Half of the images are of instants just before a sync, when most is undecided. `answers_before`:
// answers that had been given before the record began.
CrashImage DrawCrashImage(const std::vector<DiskOperation>& operations, const DiskContent& base,
                          uint64_t answers_before, uint64_t seed);
// An image of the instant after the last operation.
CrashImage DrawFinalImage(const std::vector<DiskOperation>& operations, const DiskContent& base,
                          uint64_t answers_before, uint64_t seed);
// The content after the last operation with everything that was written: what a process leaves when
// it ends.
DiskContent FinalContent(const std::vector<DiskOperation>& operations, const DiskContent& base);

// Writes the files of `content` into the empty folder `path`.
void WriteContent(const DiskContent& content, const std::string& path);
DiskContent ReadContent(const std::string& path);

}  // namespace escapement::crash

#endif  // TESTS_CRASH_CRASH_IMAGE_H_
