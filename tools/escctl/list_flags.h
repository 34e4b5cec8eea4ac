// --filter, --order-by, --limit and --watch of the lists.

#ifndef TOOLS_ESCCTL_LIST_FLAGS_H_
#define TOOLS_ESCCTL_LIST_FLAGS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tools/escctl/session.h"
#include "tools/escctl/watch.h"

namespace escapement::escctl {

template <typename Message, typename ToRow>
void PrintList(Session& session, const Row& header, const std::vector<Message>& list,
               const ToRow& to_row) {
  if (session.format() == OutputFormat::kTable) {
    std::vector<Row> rows;
    for (const auto& message : list) rows.push_back(to_row(message));
    return session.Print(FormatTable(header, rows));
  }
  std::vector<const google::protobuf::Message*> messages;
  for (const auto& message : list) messages.push_back(&message);
  session.Print(FormatMessages(messages, session.format()));
}

class ListFlags {
 public:
  // `fields` and `orders` say what --filter and --order-by take.
  void Add(CLI::App& command, absl::string_view noun, absl::string_view fields,
           absl::string_view orders) {
    noun_ = std::string(noun);
    command.add_option("--limit", limit_, absl::StrCat("most ", noun, " to show"))
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command.add_option("--filter", filter_,
                       absl::StrCat("conditions on ", fields, ", joined by AND, OR, NOT"));
    command.add_option("--order-by", order_by_, std::string(orders));
    watch_.Add(command);
  }

  // Reads at most --limit items, page by page, and prints them. `read` makes one call; `items`
  // gives the items of its answer.
  template <typename Page, typename Request, typename Read, typename Items, typename ToRow>
  void Run(Session& session, const Row& header, Request request, const Read& read,
           const Items& items, const ToRow& to_row) const {
    using Message = std::decay_t<decltype(*items(std::declval<Page&>())->begin())>;
    request.set_parent(session.parent());
    request.set_filter(filter_);
    request.set_order_by(order_by_);
    bool more = false;
    const auto read_all = [&](std::vector<Message>& list) -> grpc::Status {
      request.clear_page_token();
      do {
        request.set_page_size(
            static_cast<int32_t>(std::min<size_t>(kPageSizeMax, limit_ - list.size())));
        grpc::ClientContext context;
        session.Prepare(context);
        Page page;
        if (grpc::Status status = read(context, request, page); !status.ok()) return status;
        for (Message& message : *items(page)) list.push_back(std::move(message));
        request.set_page_token(page.next_page_token());
      } while (!request.page_token().empty() && list.size() < limit_);
      more = !request.page_token().empty();
      return grpc::Status::OK;
    };
    if (watch_.wanted()) {
      return watch_.Run(session, header, [&] {
        std::vector<Message> list;
        grpc::Status status = read_all(list);
        return Reading::Of(std::move(status), std::move(list), to_row);
      });
    }
    std::vector<Message> list;
    const grpc::Status status = read_all(list);
    if (!status.ok()) return session.Fail(status);
    PrintList(session, header, list, to_row);
    if (more) session.Say(absl::StrCat("escctl: there are more ", noun_, "; raise --limit"));
  }

 private:
  static constexpr size_t kPageSizeMax = 1000;  // the server cuts larger ones to it

  std::string noun_;
  size_t limit_ = 1000;
  std::string filter_;
  std::string order_by_;
  WatchFlags watch_;
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_LIST_FLAGS_H_
