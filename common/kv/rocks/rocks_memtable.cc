#include "common/kv/rocks/rocks_memtable.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/byte_writer.h"
#include "rocksdb/slice.h"

namespace escapement::kv {
namespace {

constexpr int kHeightMax = 12;
// One node of four is also on the next level.
constexpr int kBranchingBits = 2;
constexpr uint32_t kHighest = 1u << (kHeightMax - 1) * kBranchingBits;
static_assert(kHighest < 1u << 24, "Random has 24 bits");

// The first bytes of a user's key as numbers, padded with zeros. If two differ, the keys are in
// their order.
struct KeyHead {
  static constexpr size_t kBytes = 16;

  KeyHead() = default;
  KeyHead(const char* user, size_t size) {
    char bytes[kBytes] = {};
    if (size < kBytes) {
      std::memcpy(bytes, user, size);
      user = bytes;
    }
    high = ReadBigEndian<uint64_t>({user, 8});
    low = ReadBigEndian<uint64_t>({user + 8, 8});
  }

  friend bool operator==(const KeyHead&, const KeyHead&) = default;
  friend bool operator<(const KeyHead& a, const KeyHead& b) {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
  }

  uint64_t high = 0, low = 0;
};

// A key in RocksDB's order: by the user's bytes, then the newest first.
struct InternalKey {
  const char* user;
  size_t user_size;
  uint64_t trailer;  // sequence and kind
};

InternalKey Split(const char* internal, size_t size) {
  static_assert(std::endian::native == std::endian::little, "as RocksDB writes the trailer");
  InternalKey key{internal, size - 8, 0};
  std::memcpy(&key.trailer, internal + key.user_size, 8);
  return key;
}

// Returns the key of a memtable entry: varint32 length, internal key, value.
InternalKey KeyOfEntry(const char* entry) {
  uint32_t size = static_cast<unsigned char>(*entry++);
  if (size >= 128) {
    size &= 127;
    for (int shift = 7;; shift += 7) {
      const uint32_t byte = static_cast<unsigned char>(*entry++);
      size |= (byte & 127) << shift;
      if (byte < 128) break;
    }
  }
  return Split(entry, size);
}

bool Before(const InternalKey& a, const InternalKey& b) {
  const size_t common = a.user_size < b.user_size ? a.user_size : b.user_size;
  const int order = std::memcmp(a.user, b.user, common);
  if (order != 0) return order < 0;
  if (a.user_size != b.user_size) return a.user_size < b.user_size;
  return a.trailer > b.trailer;
}

// The key that a search looks for.
struct Sought {
  explicit Sought(const InternalKey& k) : key(k), head(k.user, k.user_size) {}
  const InternalKey key;
  const KeyHead head;
};

// The entry is behind the node. The pointers of the higher levels are before it.
struct Node {
  std::atomic<Node*>& next(int level) { return (&next0)[-level]; }
  Node* Next(int level) { return next(level).load(std::memory_order_acquire); }
  const char* entry() const { return reinterpret_cast<const char*>(this + 1); }
  InternalKey key() const { return KeyOfEntry(entry()); }
  // Most comparisons need only the heads.
  bool IsBefore(const Sought& sought) const {
    return head == sought.head ? Before(key(), sought.key) : head < sought.head;
  }
  bool IsBehind(const Sought& sought) const {
    return head == sought.head ? Before(sought.key, key()) : sought.head < head;
  }

  std::atomic<Node*> next0;  // before the insertion it holds the node's height
  KeyHead head;              // set by the insertion
};

// RocksDB destroys an iterator made in an arena without freeing its memory, and code outside
// RocksDB cannot use arenas. So iterators get their memory from this pool.
class CursorPool {
 public:
  static constexpr size_t kBytes = 64;
  struct alignas(std::max_align_t) Slot {
    char bytes[kBytes];
  };
  Slot* Take() {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return slots_.emplace_back(std::make_unique<Slot>()).get();
    Slot* slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void GiveBack(Slot* slot) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(slot);
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);  // as many slots as were ever
                                                                      // in use at once
  std::vector<Slot*> free_ ABSL_GUARDED_BY(mutex_);
};

class Memtable final : public rocksdb::MemTableRep {
 public:
  explicit Memtable(rocksdb::Allocator* allocator)
      : MemTableRep(allocator),
        head_(MakeNode(kHeightMax, 0)),
        pool_(std::make_shared<CursorPool>()) {
    for (int level = 0; level < kHeightMax; ++level) {
      head_->next(level).store(nullptr, std::memory_order_relaxed);
      place_[level] = head_;
    }
  }

  rocksdb::KeyHandle Allocate(const size_t length, char** buffer) override {
    const int height = 1 + std::countr_zero(Random() | kHighest) / kBranchingBits;
    Node* node = MakeNode(height, length);
    node->next0.store(reinterpret_cast<Node*>(static_cast<uintptr_t>(height)),
                      std::memory_order_relaxed);
    *buffer = const_cast<char*>(node->entry());
    return node;
  }

  void Insert(rocksdb::KeyHandle handle) override { InsertKey(handle); }

  // Returns false if the key and sequence are already there, as RocksDB's own does.
  bool InsertKey(rocksdb::KeyHandle handle) override {
    Node* node = static_cast<Node*>(handle);
    const int height =
        static_cast<int>(reinterpret_cast<uintptr_t>(node->next0.load(std::memory_order_relaxed)));
    const Sought sought(node->key());
    node->head = sought.head;
    FindPlace(sought);
    const Node* const behind = place_[0]->Next(0);
    if (behind != nullptr && !behind->IsBehind(sought)) return false;  // the key is already there
    if (height > height_.load(std::memory_order_relaxed))
      height_.store(height, std::memory_order_relaxed);
    for (int level = 0; level < height; ++level) {
      node->next(level).store(place_[level]->next(level).load(std::memory_order_relaxed),
                              std::memory_order_relaxed);
      place_[level]->next(level).store(node, std::memory_order_release);
      place_[level] = node;
    }
    return true;
  }

  bool Contains(const char* entry) const override {
    const Sought sought(KeyOfEntry(entry));
    const Node* node = NotBefore(sought);
    return node != nullptr && !node->IsBehind(sought);
  }

  size_t ApproximateMemoryUsage() override { return 0; }  // the allocator counts all memory

  Iterator* GetIterator(rocksdb::Arena*) override {
    CursorPool::Slot* slot = pool_->Take();
    return new (slot) PooledCursor(this, pool_, slot);
  }

  // Only the base's Get asks without an arena, and it never frees the iterator. So each thread has
  // one slot, and each Get constructs its iterator there.
  Iterator* GetDynamicPrefixIterator(rocksdb::Arena* arena) override {
    if (arena != nullptr) return GetIterator(arena);
    thread_local CursorPool::Slot slot;
    return new (&slot) Cursor(this);
  }

 private:
  // Its memory never comes from the heap, whoever deletes it.
  class Cursor : public Iterator {
   public:
    explicit Cursor(Memtable* table) : table_(table) {}
    void* operator new(size_t, void* slot) { return slot; }
    void operator delete(void*) {}
    bool Valid() const override { return node_ != nullptr; }
    const char* key() const override { return node_->entry(); }
    void Next() override { node_ = node_->Next(0); }
    void Prev() override { At(table_->LastBefore(Sought(node_->key()))); }
    void Seek(const rocksdb::Slice& internal, const char* entry) override {
      node_ = table_->NotBefore(SoughtOf(internal, entry));
    }
    void SeekForPrev(const rocksdb::Slice& internal, const char* entry) override {
      const Sought sought = SoughtOf(internal, entry);
      node_ = table_->NotBefore(sought);
      if (node_ == nullptr || node_->IsBehind(sought)) At(table_->LastBefore(sought));
    }
    void SeekToFirst() override { node_ = table_->head_->Next(0); }
    void SeekToLast() override { At(table_->Last()); }

   private:
    static Sought SoughtOf(const rocksdb::Slice& internal, const char* entry) {
      return Sought(entry != nullptr ? KeyOfEntry(entry) : Split(internal.data(), internal.size()));
    }
    void At(Node* node) { node_ = node == table_->head_ ? nullptr : node; }

    Memtable* const table_;
    Node* node_ = nullptr;
  };

  // As the first base, this is destroyed last. After GiveBack another thread may use the slot, so
  // nothing may touch it, not even a member's destructor. The union prevents one.
  class SlotOwner {
   protected:
    SlotOwner(std::shared_ptr<CursorPool> pool, CursorPool::Slot* slot)
        : pool_(std::move(pool)), slot_(slot) {}
    ~SlotOwner() {
      const std::shared_ptr<CursorPool> pool = std::move(pool_);
      pool_.~shared_ptr();
      pool->GiveBack(slot_);
    }

   private:
    union {
      std::shared_ptr<CursorPool> pool_;
    };
    CursorPool::Slot* const slot_;
  };
  class PooledCursor final : private SlotOwner, public Cursor {
   public:
    PooledCursor(Memtable* table, std::shared_ptr<CursorPool> pool, CursorPool::Slot* slot)
        : SlotOwner(std::move(pool), slot), Cursor(table) {}
    void* operator new(size_t, void* slot) { return slot; }
    void operator delete(void*) {}
  };
  static_assert(sizeof(PooledCursor) <= CursorPool::kBytes);

  // Makes a node with room for `length` bytes behind it.
  Node* MakeNode(int height, size_t length) {
    const size_t before = sizeof(Node*) * static_cast<size_t>(height - 1);
    char* memory = nullptr;
    MemTableRep::Allocate(alignof(Node) - 1 + before + sizeof(Node) + length, &memory);
    const uintptr_t odd = reinterpret_cast<uintptr_t>(memory) % alignof(Node);
    if (odd != 0) memory += alignof(Node) - odd;
    Node* node = reinterpret_cast<Node*>(memory + before);
    for (int level = 0; level < height; ++level)
      new (&node->next(level)) std::atomic<Node*>(nullptr);
    new (&node->head) KeyHead();
    return node;
  }

  uint32_t Random() {  // xorshift
    random_ ^= random_ << 13;
    random_ ^= random_ >> 17;
    random_ ^= random_ << 5;
    return random_ >> 8;
  }

  // Sets place_[level] to the last node before `sought`. It starts from the previous place, because
  // rows of a commit mostly come in order.
  void FindPlace(const Sought& sought) {
    const int top = height_.load(std::memory_order_relaxed) - 1;
    int level = 0;
    for (; level < top; ++level) {
      Node* const at = place_[level];
      if (at != head_ && !at->IsBefore(sought)) continue;
      Node* const next = at->next(level).load(std::memory_order_relaxed);
      if (next == nullptr || next->IsBehind(sought)) break;  // the place is right
    }
    Node* at = place_[level];
    if (level == top) {
      if (at != head_ && !at->IsBefore(sought)) at = head_;
      at = place_[level] = Forward(at, level, sought);
    }
    for (--level; level >= 0; --level) {
      // The node found on the lower level may already be further on.
      at = Forward(at, level, sought);
      place_[level] = at;
    }
  }
  static Node* Forward(Node* at, int level, const Sought& sought) {
    for (Node* next = at->Next(level); next != nullptr && next->IsBefore(sought);
         next = at->Next(level))
      at = next;
    return at;
  }

  Node* LastBefore(const Sought& sought) const {
    Node* at = head_;
    for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level)
      at = Forward(at, level, sought);
    return at;
  }
  Node* NotBefore(const Sought& sought) const { return LastBefore(sought)->Next(0); }
  Node* Last() const {
    Node* at = head_;
    for (int level = height_.load(std::memory_order_relaxed) - 1; level >= 0; --level) {
      while (Node* next = at->Next(level)) at = next;
    }
    return at;
  }

  Node* const head_;
  std::atomic<int> height_{1};
  // Only the writer uses it.
  Node* place_[kHeightMax];
  uint32_t random_ = 0x9e3779b9;

  const std::shared_ptr<CursorPool> pool_;
};

class MemtableFactory final : public rocksdb::MemTableRepFactory {
 public:
  using MemTableRepFactory::CreateMemTableRep;
  rocksdb::MemTableRep* CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator&,
                                          rocksdb::Allocator* allocator,
                                          const rocksdb::SliceTransform*,
                                          rocksdb::Logger*) override {
    return new Memtable(allocator);
  }
  const char* Name() const override { return "EscapementMemtable"; }
  bool CanHandleDuplicatedKey() const override { return true; }
};

}  // namespace

std::shared_ptr<rocksdb::MemTableRepFactory> NewMemtableFactory() {
  return std::make_shared<MemtableFactory>();
}

}  // namespace escapement::kv
