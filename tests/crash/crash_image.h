// CrashImage: what the disk may hold after the power was lost in the middle of a DiskRecord.
//
// Of each file, what was synced is there. Of what was written since then: nothing, all, what comes
// before some byte (with zeros or garbage behind it up to the next page), or any of the 4 KiB pages
// without the others. Of names (files made, renamed, removed) one of three rules, from the mildest
// to the harshest:
//  - kJournal: what has happened, up to some operation; every sync of anything carries all names
//    before it (ext4, xfs).
//  - kFolders: the same in each folder for itself, and only a sync of the folder carries its names:
//    a file that was synced may have no name.
//  - kNames: each name for itself; a rename happens as a whole, and not before what its names had
//    to go through.
//
// The same seed over the same record is the same image.

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
  size_t at = 0;         // operations that had happened
  uint64_t answers = 0;  // that had been given
  NameRule names = NameRule::kJournal;
  TailRule tails = TailRule::kNothing;
  // What of the disk was open to chance; an image with none of both is a plain end of the process.
  size_t unsynced_files = 0;
  size_t unsynced_names = 0;
  // The unsynced end of a MANIFEST came back as other bytes than were written, zeros among them.
  // File systems that write a file's size after its data (ext4 but with data=writeback, xfs) do not
  // do that. RocksDB refuses to open it.
  bool garbage_in_manifest = false;
};

// Half of the images are of instants just before a sync, when most is open. `answers` before the
// record began are `answers_before`.
CrashImage DrawCrashImage(const std::vector<DiskOperation>& operations, const DiskContent& base,
                          uint64_t answers_before, uint64_t seed);
// Of the instant after the last operation.
CrashImage DrawFinalImage(const std::vector<DiskOperation>& operations, const DiskContent& base,
                          uint64_t answers_before, uint64_t seed);
// After the last operation, with everything that was written: what a process that ends leaves.
DiskContent FinalContent(const std::vector<DiskOperation>& operations, const DiskContent& base);

// Writes the files of `content` into the empty folder `path`.
void WriteContent(const DiskContent& content, const std::string& path);
DiskContent ReadContent(const std::string& path);

}  // namespace escapement::crash

#endif  // TESTS_CRASH_CRASH_IMAGE_H_
