// ListRows: one page of a list that reads the rows of one range, in the order of their keys or
// backwards, and shows those that its filter matches.
//
// A page ends early, with a token, once it has examined kListExaminedMax rows. The token is the key
// of the last row that was examined, or the one behind it: where the rest of the range begins.
//
// ListRecords: the same for all rows of a tenant of one kind.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_REQUESTS_ROW_LISTING_H_
#define SERVICES_MASTER_REQUESTS_ROW_LISTING_H_

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/key_codec.h"
#include "google/protobuf/repeated_field.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

struct RowList {
  kv::ColumnFamily cf = kv::ColumnFamily::kMeta;
  std::string begin, end;  // keys of the rest of the list
  bool backwards = false;
  size_t page_size = 0;
  std::string list;  // for page tokens
  // Null, or another store whose rows of the range are listed, too. It outlives the listing.
  kv::KvClient* also = nullptr;
  // A page examines no more rows once they have so many bytes.
  size_t bytes_max = std::numeric_limits<size_t>::max();
};

template <typename Response, typename Item>
class RowListing : public std::enable_shared_from_this<RowListing<Response, Item>> {
 public:
  // Makes the item that shows the row. nullopt: the filter does not match it. An error ends the
  // list.
  using Show = absl::AnyInvocable<absl::StatusOr<std::optional<Item>>(kv::Entry row)>;
  using Items = google::protobuf::RepeatedPtrField<Item>* (Response::*)();

  RowListing(MasterContext& context, RowList list, Items items, Show show, Done<Response> done)
      : context_(context),
        list_(std::move(list)),
        items_((response_.*items)()),
        show_(std::move(show)),
        done_(std::move(done)) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = list_.cf;
    scan.begin = list_.begin;
    scan.end = list_.end;
    scan.reverse = list_.backwards;
    scan.limit = static_cast<uint32_t>(std::min(kRowsAtOnce, kListExaminedMax - examined_));
    if (scan.begin >= scan.end) return done_(std::move(response_));
    context_.client.Scan(
        scan, context_.executor,
        [self = this->shared_from_this(), scan](absl::StatusOr<kv::ScanResult> page) {
          if (!page.ok()) return self->done_(StoreFailed(page.status()));
          if (self->list_.also == nullptr) return self->OnPage(*std::move(page));
          self->ReadAlso(scan, *std::move(page));
        });
  }

 private:
  static constexpr size_t kRowsAtOnce = 1000;

  void ReadAlso(kv::ScanRequest scan, kv::ScanResult page) {
    list_.also->Scan(std::move(scan), context_.executor,
                     [self = this->shared_from_this(),
                      page = std::move(page)](absl::StatusOr<kv::ScanResult> other) mutable {
                       if (!other.ok()) return self->done_(StoreFailed(other.status()));
                       self->OnPage(self->Merged(std::move(page), *std::move(other)));
                     });
  }

  // The rows of both pages in the order of the list, up to where both have been read.
  kv::ScanResult Merged(kv::ScanResult a, kv::ScanResult b) const {
    const auto before = [this](const kv::Entry& x, const kv::Entry& y) {
      return list_.backwards ? y.key < x.key : x.key < y.key;
    };
    std::optional<std::string> end;  // the first of the last keys of pages that have more
    for (const kv::ScanResult* page : {&a, &b}) {
      if (!page->more || page->entries.empty()) continue;
      const kv::Entry& last = page->entries.back();
      if (!end.has_value() || before(last, {.key = *end})) end = last.key;
    }
    kv::ScanResult merged;
    merged.more = a.more || b.more;
    std::merge(std::make_move_iterator(a.entries.begin()), std::make_move_iterator(a.entries.end()),
               std::make_move_iterator(b.entries.begin()), std::make_move_iterator(b.entries.end()),
               std::back_inserter(merged.entries), before);
    while (end.has_value() && before({.key = *end}, merged.entries.back()))
      merged.entries.pop_back();
    return merged;
  }

  std::string& Rest() { return list_.backwards ? list_.end : list_.begin; }

  void OnPage(kv::ScanResult page) {
    for (kv::Entry& row : page.entries) {
      bytes_ += row.value.size();
      std::string key = row.key;
      absl::StatusOr<std::optional<Item>> item = show_(std::move(row));
      if (!item.ok()) return done_(item.status());
      ++examined_;
      if (item->has_value()) {
        const bool full = static_cast<size_t>(items_->size()) == list_.page_size;
        if (full || !budget_.Take(**item)) return EndPage();
        *items_->Add() = **std::move(item);
      }
      Rest() = list_.backwards ? std::move(key) : KeyAfter(key);
    }
    if (!page.more) return done_(std::move(response_));
    if (examined_ >= kListExaminedMax || bytes_ >= list_.bytes_max) return EndPage();
    Step();
  }

  void EndPage() {
    response_.set_next_page_token(EncodePageToken(list_.list, Rest()));
    done_(std::move(response_));
  }

  MasterContext& context_;
  RowList list_;
  Response response_;
  google::protobuf::RepeatedPtrField<Item>* const items_;  // the list in response_
  Show show_;
  Done<Response> done_;
  size_t examined_ = 0;
  size_t bytes_ = 0;
  PageBudget budget_;
};

// `items`: the response's list, such as &v1::ListOperationsResponse::mutable_operations.
template <typename Response, typename Item>
void ListRows(MasterContext& context, RowList list,
              google::protobuf::RepeatedPtrField<Item>* (Response::*items)(),
              typename RowListing<Response, Item>::Show show, Done<Response> done) {
  std::make_shared<RowListing<Response, Item>>(context, std::move(list), items, std::move(show),
                                               std::move(done))
      ->Step();
}

// A page of a list without a filter: the rows of the request's tenant whose keys begin with
// `prefix`, each a Record that `show` shows. `method`: "ListCalendars".
template <typename Record, typename Request, typename Response, typename Item, typename Show>
void ListRecords(MasterContext& context, absl::string_view method, const Request& request,
                 kv::ColumnFamily cf, std::string (*prefix)(absl::string_view tenant),
                 google::protobuf::RepeatedPtrField<Item>* (Response::*items)(), Show show,
                 std::type_identity_t<Done<Response>> done) {
  if (!context.ready) return context.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context.Refuse(tenant.status(), std::move(done));
  // A token is good for the same list only.
  std::string list = absl::StrCat(method, " ", *tenant);
  const absl::StatusOr<PageRequest> page = ReadPage(list, request);
  if (!page.ok()) return context.Refuse(page.status(), std::move(done));
  const std::string begin = prefix(*tenant);
  ListRows(
      context,
      {.cf = cf,
       .begin = page->position.empty() ? begin : page->position,
       .end = PrefixEnd(begin),
       .page_size = page->size,
       .list = std::move(list)},
      items,
      [method = std::string(method), show = std::move(show)](
          const kv::Entry& row) mutable -> absl::StatusOr<std::optional<Item>> {
        Record record;
        if (!record.ParseFromString(row.value))
          return BrokenRecord(absl::StrCat("a record of ", method));
        return show(record);
      },
      std::move(done));
}

}  // namespace escapement::master

#endif  // SERVICES_MASTER_REQUESTS_ROW_LISTING_H_
