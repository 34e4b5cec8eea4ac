// Reads lists page by page.

#ifndef TOOLS_ESCCTL_BASE_PAGES_H_
#define TOOLS_ESCCTL_BASE_PAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "tools/escctl/base/session.h"

namespace escapement::escctl {

inline constexpr size_t kPageSizeMax = 1000;  // servers cut larger ones to it
inline constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

struct PagesRead {
  grpc::Status status;
  bool more = false;  // the server has more than `limit` items
};

// Calls `method` until `on_page` has taken `limit` items or no page is left. `on_page` gets each
// page and returns the number of its items.
template <typename Stub, typename Request, typename Page, typename OnPage>
PagesRead ForEachPage(Session& session,
                      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Page*),
                      std::type_identity_t<Request> request, size_t limit, const OnPage& on_page) {
  size_t taken = 0;
  do {
    request.set_page_size(static_cast<int32_t>(std::min(kPageSizeMax, limit - taken)));
    Page page;
    if (grpc::Status status = session.Call(method, request, page); !status.ok())
      return {.status = std::move(status)};
    request.set_page_token(page.next_page_token());
    taken += static_cast<size_t>(on_page(page));
  } while (!request.page_token().empty() && taken < limit);
  return {.status = grpc::Status::OK, .more = !request.page_token().empty()};
}

// Appends at most `limit` items of all pages to `list`. `items` gives a page's repeated field.
template <typename Stub, typename Request, typename Page, typename Items, typename Message>
PagesRead ReadPages(Session& session,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Page*),
                    const std::type_identity_t<Request>& request, size_t limit, const Items& items,
                    std::vector<Message>& list) {
  return ForEachPage(session, method, request, limit, [&](Page& page) {
    auto* field = items(page);
    for (Message& message : *field) list.push_back(std::move(message));
    return field->size();
  });
}

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_PAGES_H_
