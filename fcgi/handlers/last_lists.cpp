#include "fcgi/handlers/last_lists.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

namespace freshet::handlers {
namespace {

constexpr std::size_t kMaxUntagged = 16;  // three models, two modes of one of them, four windows
constexpr std::size_t kMaxNameBytes = 2 * kMaxIdBytes;

std::string name_of(const hot::ListQuery& query) {
  std::string name(query.model->name);
  name.append(query.mode == hot::ViewsMode::kCurrent ? " current " : " ");
  return name.append(std::to_string(query.window.count())).append(" ").append(query.tag.view());
}

}  // namespace

struct LastLists::Slot {
  std::uint64_t hash;
  std::uint64_t served;  // number of the last store()
  std::size_t size;      // of the list; 0: unused
  bool below_floor;
  std::array<char, kMaxNameBytes> name;
  std::array<char, kMaxBytes> json;

  bool has_name(std::string_view other) const {
    return size > 0 && std::string_view(name.data(), strnlen(name.data(), name.size())) == other;
  }
};

struct LastLists::Table {
  pthread_mutex_t mutex;
  std::uint64_t stores;
  std::array<Slot, kMaxUntagged + kMaxTagged> slots;

  std::span<Slot> slots_for(const hot::ListQuery& query) {
    const std::span all(slots);
    return query.tag.empty() ? all.first(kMaxUntagged) : all.subspan(kMaxUntagged);
  }
};

// Holds the table's lock; without waiting, only if no other process does.
class LastLists::Lock {
 public:
  enum class Wait : bool { kNo, kYes };
  explicit Lock(Table& table, Wait wait = Wait::kNo) : table_(table) {
    int result = wait == Wait::kYes ? pthread_mutex_lock(&table.mutex) : pthread_mutex_trylock(&table.mutex);
    if (result == EOWNERDEAD) {  // a worker was killed in store()
      for (Slot& slot : table.slots) slot.size = 0;
      result = pthread_mutex_consistent(&table.mutex);
    }
    is_held_ = result == 0;
  }
  ~Lock() {
    if (is_held_) pthread_mutex_unlock(&table_.mutex);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  bool is_held() const { return is_held_; }

 private:
  Table& table_;
  bool is_held_ = false;
};

LastLists::LastLists() {
  void* const memory =
      mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "last lists");
  table_ = static_cast<Table*>(memory);  // all zeros
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int result = pthread_mutex_init(&table_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (result != 0) throw std::system_error(result, std::generic_category(), "last lists");
}

LastLists::~LastLists() { munmap(table_, sizeof(Table)); }

void LastLists::store(const hot::ListQuery& query, const hot::HotList& list) {
  const std::string name = name_of(query);
  if (list.json().size() > kMaxBytes || name.size() > kMaxNameBytes) return;
  // Requests may name any tag: an empty list of one must not replace another.
  if (list.size() == 0 && !query.tag.empty()) return;
  const Lock lock(*table_);
  if (!lock.is_held()) return;
  const auto slots = table_->slots_for(query);
  auto slot = std::ranges::find_if(slots, [&](const Slot& each) { return each.has_name(name); });
  const bool is_known = slot != slots.end();
  if (!is_known) slot = std::ranges::min_element(slots, {}, &Slot::served);
  slot->served = ++table_->stores;
  if (is_known && slot->hash == list.hash() && slot->below_floor == list.below_floor()) return;
  slot->size = 0;
  slot->hash = list.hash();
  slot->below_floor = list.below_floor();
  slot->name.fill('\0');
  name.copy(slot->name.data(), name.size());
  list.json().copy(slot->json.data(), list.json().size());
  slot->size = list.json().size();
}

void LastLists::clear() {
  const Lock lock(*table_, Lock::Wait::kYes);
  for (Slot& each : table_->slots) each.size = 0;
}

std::shared_ptr<const hot::HotList> LastLists::load(const hot::ListQuery& query) const {
  const Lock lock(*table_);
  if (!lock.is_held()) return nullptr;
  const std::string name = name_of(query);
  const auto slots = table_->slots_for(query);
  const auto slot = std::ranges::find_if(slots, [&](const Slot& each) { return each.has_name(name); });
  if (slot == slots.end()) return nullptr;
  return std::make_shared<const hot::HotList>(std::string(slot->json.data(), slot->size), slot->below_floor);
}

}  // namespace freshet::handlers
