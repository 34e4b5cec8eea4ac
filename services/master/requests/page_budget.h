// PageBudget: how many bytes of items one page of a list may still hold.
//
// Ordinary gRPC clients refuse an answer of more than 4 MiB, so a page ends early, with a token,
// once its items have kPageBytesMax bytes. Pure.

#ifndef SERVICES_MASTER_REQUESTS_PAGE_BUDGET_H_
#define SERVICES_MASTER_REQUESTS_PAGE_BUDGET_H_

#include <cstddef>

#include "google/protobuf/message_lite.h"
#include "services/master/base/limits.h"

namespace escapement::master {

class PageBudget {
 public:
  // Takes the item's bytes. False if it does not fit any more: the page ends before it. The first
  // item always fits, so every page makes progress.
  bool Take(const google::protobuf::MessageLite& item) {
    const size_t bytes = item.ByteSizeLong() + kItemFrameBytes;
    if (bytes_ > 0 && bytes_ + bytes > kPageBytesMax) return false;
    bytes_ += bytes;
    return true;
  }

 private:
  static constexpr size_t kItemFrameBytes = 6;  // tag and length of a repeated field, at most
  size_t bytes_ = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_PAGE_BUDGET_H_
