#include "common/kv/engine/overlay.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace escapement::kv {
namespace overlay_test {

constexpr ColumnFamily kCf = ColumnFamily::kDone;
using Content = std::map<std::string, std::string, std::less<>>;

class MapState final : public BaseState {
 public:
  bool Get(ColumnFamily cf, absl::string_view key, std::string& value) override {
    const auto it = content.find(key);
    if (it == content.end()) return false;
    value = it->second;
    return true;
  }
  void ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
               Visitor visit) override {
    for (auto it = content.lower_bound(begin);
         it != content.end() && (end.empty() || it->first < end); ++it) {
      if (!visit(it->first, it->second)) return;
    }
  }
  Content content;
};

// Batches of random effects. Each batch is an overlay over the one before, and the oldest ones are
// written to the map at random times.
class Batches {
 public:
  Batches() { Begin(); }

  void Begin() {
    BaseState& below = overlays_.empty() ? static_cast<BaseState&>(base_) : overlays_.back();
    overlays_.emplace_back(below);
    effects_.emplace_back();
  }
  void SettleOldest() {
    for (const Effect& effect : effects_.front()) Apply(effect, base_.content);
    effects_.pop_front();
    overlays_.pop_front();
    overlays_.front().SetBase(base_);
  }
  size_t size() const { return overlays_.size(); }
  Overlay& top() { return overlays_.back(); }
  const Content& expected() const { return expected_; }

  void Put(std::string key, std::string value) {
    const Effect& effect = Add({'p', std::move(key), std::move(value)});
    top().Put(kCf, effect.key, effect.value);
  }
  void Delete(std::string key) {
    const Effect& effect = Add({'d', std::move(key), {}});
    top().Delete(kCf, effect.key);
  }
  void DeleteRange(std::string begin, std::string end) {
    const Effect& effect = Add({'r', std::move(begin), std::move(end)});
    top().DeleteRange(kCf, effect.key, effect.value);
  }

 private:
  struct Effect {
    char kind;
    std::string key;
    std::string value;
  };
  static void Apply(const Effect& effect, Content& content) {
    if (effect.kind == 'p') {
      content[effect.key] = effect.value;
    } else if (effect.kind == 'd') {
      content.erase(effect.key);
    } else {
      content.erase(content.lower_bound(effect.key), content.lower_bound(effect.value));
    }
  }
  const Effect& Add(Effect effect) {
    Apply(effect, expected_);
    return effects_.back().emplace_back(std::move(effect));
  }

  MapState base_;
  std::deque<Overlay> overlays_;            // oldest first
  std::deque<std::deque<Effect>> effects_;  // one entry for each overlay, which points to them
  Content expected_;
};

TEST(OverlayTest, BatchOverBatchesReadsAsIfTheyWereWritten) {
  std::mt19937 random(7);
  const auto key = [&random] { return absl::StrCat("k", random() % 10, random() % 4); };
  for (int round = 0; round < 300; ++round) {
    Batches batches;
    for (int step = 0; step < 60; ++step) {
      switch (random() % 8) {
        case 0:
          if (batches.size() < 4) batches.Begin();
          break;
        case 1:
          if (batches.size() > 1) batches.SettleOldest();
          break;
        case 2: {
          const std::string begin = key(), end = key();
          if (begin < end) batches.DeleteRange(begin, end);
          break;
        }
        case 3:
        case 4:
          batches.Delete(key());
          break;
        default:
          batches.Put(key(), absl::StrCat("v", step));
      }
      const std::string asked = key();
      const auto it = batches.expected().find(asked);
      absl::string_view value;
      ASSERT_EQ(batches.top().Get(kCf, asked, value), it != batches.expected().end());
      if (it != batches.expected().end()) {
        ASSERT_EQ(value, it->second);
      }
      Content found;
      batches.top().ForEach(kCf, "", "", [&found](absl::string_view k, absl::string_view v) {
        found.emplace(k, v);
        return true;
      });
      ASSERT_EQ(found, batches.expected());
      // A range, up to a few keys.
      const auto [begin, end] = std::minmax(std::initializer_list<std::string>{key(), key()});
      std::vector<std::string> keys, expected;
      batches.top().ForEachKey(kCf, begin, end, [&keys](absl::string_view k) {
        keys.emplace_back(k);
        return keys.size() < 3;
      });
      for (auto in = batches.expected().lower_bound(begin);
           in != batches.expected().end() && in->first < end && expected.size() < 3; ++in)
        expected.push_back(in->first);
      ASSERT_EQ(keys, expected);
    }
  }
}

}  // namespace overlay_test
}  // namespace escapement::kv
