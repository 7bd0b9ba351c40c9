// What handles point to, one list for each kind of them. Under GPUMEM_SIMULATED_HANDLES_AGAIN the record that
// ended last is the next one's, whichever thread asks, as a driver's heap has it; without it they are the
// heap's own, which seldom gives one thread what another one freed. With the machine's lock.
#pragma once

#include <vector>

namespace simulated {

inline constinit bool handles_come_again = false;

template <typename Record>
class handle_records {
 public:
  static Record* make() {
    if (ended().empty()) return new Record{};
    Record* const made = ended().back();
    ended().pop_back();
    *made = {};
    return made;
  }
  static void end(Record* gone) {
    if (!handles_come_again) {
      delete gone;
      return;
    }
    *gone = {};
    ended().push_back(gone);
  }

 private:
  static std::vector<Record*>& ended() {
    static auto* const all = new std::vector<Record*>;
    return *all;
  }
};

}  // namespace simulated
