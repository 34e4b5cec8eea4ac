// SecretText: bytes that must not reach a log, an error or a core dump longer than needed.
//
// It prints as "<secret>" and wipes its memory on destruction. Moving it leaves no copy behind,
// because the bytes stay in one block on the heap. Copies are made only by name.
//
// Threads: a plain value.

#ifndef COMMON_SECRETS_SECRET_TEXT_H_
#define COMMON_SECRETS_SECRET_TEXT_H_

#include <cstddef>
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/string_view.h"

namespace escapement {

class SecretText {
 public:
  SecretText() = default;  // empty
  // Copies the bytes. The caller still holds its own; TakeFrom wipes them.
  explicit SecretText(absl::string_view bytes);
  // `size` zero bytes, to be filled through data().
  static SecretText OfSize(size_t size);
  // Copies the bytes, then wipes and empties `bytes`.
  static SecretText TakeFrom(std::string& bytes);

  ~SecretText();
  SecretText(SecretText&& other) noexcept;
  SecretText& operator=(SecretText&& other) noexcept;
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;

  SecretText Copy() const { return SecretText(Reveal()); }

  // The bytes, valid as long as this object. Do not put them into a text that is kept.
  absl::string_view Reveal() const { return {data_.get(), size_}; }
  char* data() { return data_.get(); }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Takes a time that depends only on the sizes.
  bool Equals(const SecretText& other) const;

  friend std::ostream& operator<<(std::ostream& out, const SecretText&) { return out << kPrinted; }
  template <typename Sink>
  friend void AbslStringify(Sink& sink, const SecretText&) {
    sink.Append(kPrinted);
  }

 private:
  static constexpr const char* kPrinted = "<secret>";

  void Wipe();

  std::unique_ptr<char[]> data_;
  size_t size_ = 0;
};

// Overwrites the bytes and empties the text. For temporary copies that a library needs.
void WipeText(std::string& text);

}  // namespace escapement

#endif  // COMMON_SECRETS_SECRET_TEXT_H_
