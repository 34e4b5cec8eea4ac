#include "tests/crash/crash_image.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

namespace escapement::crash {
namespace {

namespace fs = std::filesystem;
using Kind = DiskOperation::Kind;

constexpr size_t kPageBytes = 4096;

std::string FolderOf(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

class Chance {
 public:
  explicit Chance(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }

 private:
  std::mt19937_64 random_;
};

struct Change {
  bool truncate = false;
  uint64_t offset = 0;  // offset of the write, or the new size
  std::string bytes = {};
  bool doubtful = false;  // a sync of it has failed, so no later sync makes it durable
};

void Apply(const Change& change, std::string* bytes) {
  if (change.truncate) {
    bytes->resize(change.offset, '\0');
    return;
  }
  const size_t end = change.offset + change.bytes.size();
  if (bytes->size() < end) bytes->resize(end, '\0');
  bytes->replace(change.offset, change.bytes.size(), change.bytes);
}

struct File {
  std::string durable;
  std::vector<Change> changes;  // changes since `durable`
};

// The disk after a number of operations: its durable content and the changes since then.
class Disk {
 public:
  Disk(const DiskContent& base, NameRule rule) : rule_(rule), folders_(base.folders) {
    uint64_t file = 0;
    for (const auto& [name, bytes] : base.files) {
      names_[name] = ++file;
      files_[file].durable = bytes;
    }
  }

  void Do(const DiskOperation& operation) {
    File& file = files_[operation.file];
    switch (operation.kind) {
      case Kind::kWrite:
        file.changes.push_back({false, operation.offset, operation.bytes, false});
        break;
      case Kind::kTruncate:
        file.changes.push_back({true, operation.offset, "", false});
        break;
      case Kind::kSync:
        SyncFile(file);
        if (rule_ == NameRule::kJournal) SyncNames([](const DiskOperation&) { return true; });
        break;
      case Kind::kSyncFailed:
        for (Change& change : file.changes) change.doubtful = true;
        break;
      case Kind::kSyncFolder:
        SyncNames([&](const DiskOperation& change) {
          return rule_ == NameRule::kJournal || FolderOf(change.name) == operation.name;
        });
        break;
      case Kind::kAnswers:
        break;
      default:
        changes_.push_back(operation);
    }
  }

  size_t unsynced_files() const {
    size_t count = 0;
    for (const auto& [number, file] : files_) count += file.changes.empty() ? 0 : 1;
    return count;
  }
  size_t unsynced_names() const { return changes_.size(); }

  // Chooses which changes of names have happened.
  void SettleNames(Chance& chance) {
    if (rule_ == NameRule::kNames) {
      std::set<std::string> stuck;  // names with an earlier change that did not happen
      for (const DiskOperation& change : changes_) {
        const bool waits = stuck.count(change.name) != 0 || stuck.count(change.to) != 0;
        if (!waits && chance.Below(2) == 0) {
          Rename(change);
        } else {
          stuck.insert(change.name);
          if (!change.to.empty()) stuck.insert(change.to);
        }
      }
      return;
    }
    // Draws how many changes have happened: for each folder, or for all together.
    std::map<std::string, std::vector<const DiskOperation*>> queues;
    for (const DiskOperation& change : changes_)
      queues[rule_ == NameRule::kJournal ? "" : FolderOf(change.name)].push_back(&change);
    for (const auto& [folder, queue] : queues) {
      const size_t happened = chance.Below(queue.size() + 1);
      for (size_t i = 0; i < happened; ++i) Rename(*queue[i]);
    }
  }
  void HappenAll() {
    for (const DiskOperation& change : changes_) Rename(change);
  }

  template <typename Content>
  DiskContent Take(Content content_of) {
    DiskContent content;
    content.folders = folders_;
    for (const auto& [name, number] : names_) {
      const std::string folder = FolderOf(name);
      if (folder.empty() || folders_.count(folder) != 0)
        content.files[name] = content_of(name, files_.at(number));
    }
    return content;
  }

 private:
  static void SyncFile(File& file) {
    std::vector<Change> left;
    for (Change& change : file.changes) {
      if (change.doubtful) {
        left.push_back(std::move(change));
      } else {
        Apply(change, &file.durable);
      }
    }
    file.changes = std::move(left);
  }

  template <typename Carried>
  void SyncNames(Carried carried) {
    std::vector<DiskOperation> left;
    for (DiskOperation& change : changes_) {
      if (carried(change)) {
        Rename(change);
      } else {
        left.push_back(std::move(change));
      }
    }
    changes_ = std::move(left);
  }

  void Rename(const DiskOperation& change) {
    switch (change.kind) {
      case Kind::kMakeFolder:
        folders_.insert(change.name);
        break;
      case Kind::kCreate:
        names_[change.name] = change.file;
        break;
      case Kind::kUnlink:
        names_.erase(change.name);
        break;
      case Kind::kRename:
        if (names_.count(change.name) == 0) break;
        names_[change.to] = names_.at(change.name);
        names_.erase(change.name);
        break;
      default:
        break;
    }
  }

  const NameRule rule_;
  std::set<std::string> folders_;
  std::map<std::string, uint64_t> names_;
  std::map<uint64_t, File> files_;
  std::vector<DiskOperation> changes_;  // changes of names that are not durable
};

// The written bytes up to a random one, for files that are written from begin to end.
std::string Torn(const File& file, TailRule rule, Chance& chance) {
  size_t total = 0;
  for (const Change& change : file.changes) total += change.bytes.size();
  size_t left = chance.Below(total + 1);
  std::string bytes = file.durable;
  for (const Change& change : file.changes) {
    Change part = change;
    if (part.bytes.size() > left) part.bytes.resize(left);
    left -= part.bytes.size();
    Apply(part, &bytes);
    if (left == 0) break;
  }
  if (rule == TailRule::kTorn) return bytes;
  const size_t page_end = (bytes.size() / kPageBytes + 1) * kPageBytes;
  size_t filled = bytes.size() + chance.Below(page_end - bytes.size() + 1);
  while (bytes.size() < filled)
    bytes.push_back(rule == TailRule::kTornZeros ? '\0' : static_cast<char>(chance.Below(256)));
  return bytes;
}

// Draws for each page that was written whether it is old or new. The size is that of the last new
// page, or the full one with a hole.
std::string Pages(const File& file, Chance& chance) {
  std::string written = file.durable;
  for (const Change& change : file.changes) Apply(change, &written);
  std::string bytes = file.durable;
  if (chance.Below(2) == 0) bytes.resize(written.size(), '\0');
  for (size_t begin = 0; begin < written.size(); begin += kPageBytes) {
    if (chance.Below(2) == 0) continue;
    const std::string page = written.substr(begin, kPageBytes);
    Apply({false, begin, page, false}, &bytes);
  }
  return bytes;
}

std::string Settle(const File& file, TailRule rule, Chance& chance) {
  if (file.changes.empty() || rule == TailRule::kNothing) return file.durable;
  if (rule == TailRule::kPages) return Pages(file, chance);
  if (rule != TailRule::kAll) return Torn(file, rule, chance);
  std::string bytes = file.durable;
  for (const Change& change : file.changes) Apply(change, &bytes);
  return bytes;
}

size_t DrawInstant(const std::vector<DiskOperation>& operations, Chance& chance) {
  size_t at = chance.Below(operations.size() + 1);
  if (chance.Below(2) == 0) return at;
  while (at < operations.size() && operations[at].kind != Kind::kSync &&
         operations[at].kind != Kind::kSyncFolder) {
    ++at;
  }
  return at;
}

}  // namespace

absl::string_view NameOf(NameRule rule) {
  static constexpr absl::string_view kNamed[] = {"journal", "folders", "names"};
  return kNamed[static_cast<size_t>(rule)];
}

absl::string_view NameOf(TailRule rule) {
  static constexpr absl::string_view kNamed[] = {"nothing",    "all",          "torn",
                                                 "torn+zeros", "torn+garbage", "pages"};
  return kNamed[static_cast<size_t>(rule)];
}

namespace {

CrashImage Draw(const std::vector<DiskOperation>& operations, const DiskContent& base,
                uint64_t answers_before, size_t at, Chance& chance) {
  CrashImage image;
  image.at = at;
  image.answers = answers_before;
  image.names = static_cast<NameRule>(chance.Below(kNameRules));
  image.tails = static_cast<TailRule>(chance.Below(kTailRules));
  Disk disk(base, image.names);
  for (size_t i = 0; i < image.at; ++i) {
    if (operations[i].kind == Kind::kAnswers) image.answers = operations[i].count;
    disk.Do(operations[i]);
  }
  image.unsynced_files = disk.unsynced_files();
  image.unsynced_names = disk.unsynced_names();
  disk.SettleNames(chance);
  // In half of the images each file draws a rule of its own.
  const bool mixed = chance.Below(2) == 0;
  image.content = disk.Take([&](const std::string& name, const File& file) {
    const auto rule = mixed ? static_cast<TailRule>(chance.Below(kTailRules)) : image.tails;
    std::string bytes = Settle(file, rule, chance);
    if (name.find("MANIFEST") != std::string::npos &&
        Settle(file, TailRule::kAll, chance).compare(0, bytes.size(), bytes) != 0) {
      image.garbage_in_manifest = true;
    }
    return bytes;
  });
  return image;
}

}  // namespace

CrashImage DrawCrashImage(const std::vector<DiskOperation>& operations, const DiskContent& base,
                          uint64_t answers_before, uint64_t seed) {
  Chance chance(seed);
  const size_t at = DrawInstant(operations, chance);
  return Draw(operations, base, answers_before, at, chance);
}

CrashImage DrawFinalImage(const std::vector<DiskOperation>& operations, const DiskContent& base,
                          uint64_t answers_before, uint64_t seed) {
  Chance chance(seed);
  return Draw(operations, base, answers_before, operations.size(), chance);
}

DiskContent FinalContent(const std::vector<DiskOperation>& operations, const DiskContent& base) {
  Chance none(0);
  Disk disk(base, NameRule::kJournal);
  for (const DiskOperation& operation : operations) disk.Do(operation);
  disk.HappenAll();
  return disk.Take(
      [&](const std::string&, const File& file) { return Settle(file, TailRule::kAll, none); });
}

void WriteContent(const DiskContent& content, const std::string& path) {
  for (const std::string& folder : content.folders) fs::create_directories(path + "/" + folder);
  for (const auto& [name, bytes] : content.files)
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
}

DiskContent ReadContent(const std::string& path) {
  DiskContent content;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = fs::relative(entry.path(), path).string();
    if (entry.is_directory()) {
      content.folders.insert(name);
      continue;
    }
    const std::string file = entry.path().filename().string();
    if (file == "LOCK" || file.rfind("LOG", 0) == 0) continue;  // they do not matter
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    content.files[name] = std::move(bytes).str();
  }
  return content;
}

}  // namespace escapement::crash
