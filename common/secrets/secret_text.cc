#include "common/secrets/secret_text.h"

#include <openssl/crypto.h>

#include <cstring>
#include <utility>

namespace escapement {

SecretText::SecretText(absl::string_view bytes) : SecretText(OfSize(bytes.size())) {
  if (!bytes.empty()) std::memcpy(data_.get(), bytes.data(), bytes.size());
}

SecretText SecretText::OfSize(size_t size) {
  SecretText secret;
  secret.data_ = std::make_unique<char[]>(size);
  secret.size_ = size;
  return secret;
}

SecretText SecretText::TakeFrom(std::string& bytes) {
  SecretText secret{absl::string_view(bytes)};
  WipeText(bytes);
  return secret;
}

SecretText::~SecretText() { Wipe(); }

SecretText::SecretText(SecretText&& other) noexcept
    : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}

SecretText& SecretText::operator=(SecretText&& other) noexcept {
  if (this == &other) return *this;
  Wipe();
  data_ = std::move(other.data_);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

bool SecretText::Equals(const SecretText& other) const {
  return size_ == other.size_ &&
         (size_ == 0 || CRYPTO_memcmp(data_.get(), other.data_.get(), size_) == 0);
}

void SecretText::Wipe() {
  if (data_ != nullptr) OPENSSL_cleanse(data_.get(), size_);
}

void WipeText(std::string& text) {
  // The whole buffer, because an earlier and longer text may have left bytes behind the end.
  text.resize(text.capacity());
  if (!text.empty()) OPENSSL_cleanse(text.data(), text.size());
  text.clear();
}

}  // namespace escapement
