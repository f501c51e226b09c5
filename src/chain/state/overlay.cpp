#include "chain/state/overlay.h"

#include <algorithm>
#include <set>

#include "chain/types/block.h"
#include "crypto/hash.h"

namespace quern::chain::state {
namespace {

const Hash32& empty_code_hash() {
    static const Hash32 hash = crypto::keccak256({});
    return hash;
}

using SlotKey = FixedBytes<types::Address::kSize + Hash32::kSize>;

SlotKey storage_key(const types::Address& address, const Hash32& slot) {
    SlotKey key;
    std::copy(address.data.begin(), address.data.end(), key.data.begin());
    std::copy(slot.data.begin(), slot.data.end(), key.data.begin() + types::Address::kSize);
    return key;
}

types::Address address_of(const SlotKey& key) {
    return types::Address::copy_of(key.view().first(types::Address::kSize));
}

Hash32 slot_of(const SlotKey& key) { return Hash32::copy_of(key.view().last(Hash32::kSize)); }

}  // namespace

bool Account::has_code() const { return code_hash != empty_code_hash(); }

Account empty_account() {
    Account account;
    account.storage_root = types::kEmptyTrieRoot;
    account.code_hash = empty_code_hash();
    return account;
}

Overlay::Accounts::Entry& Overlay::find_account(const types::Address& address) const {
    const auto [entry, added] = accounts_.find_or_add(address);
    if (added) {
        const auto before = base_.account(address);
        TouchedAccount& touched = entry->value;
        touched.existed = before.has_value();
        touched.before = before ? *before : empty_account();
        touched.now.account = touched.before;
    }
    return *entry;
}

const Account& Overlay::account_view(const types::Address& address) const { return view(touch(address).value); }

std::optional<Account> Overlay::account(const types::Address& address) const {
    const TouchedAccount& touched = touch(address).value;
    return exists(touched) ? std::optional(touched.now.account) : std::nullopt;
}

std::optional<Account> Overlay::account_before(const types::Address& address) const {
    const TouchedAccount& touched = touch(address).value;
    return touched.existed ? std::optional(touched.before) : std::nullopt;
}

Bytes Overlay::code(const Hash32& code_hash) const {
    const auto found = code_.find(code_hash);
    return found != code_.end() ? found->second : base_.code(code_hash);
}

Hash32 Overlay::storage(const types::Address& address, const Hash32& slot) const {
    return value(slot_ref(account_ref(address), slot));
}

Hash32 Overlay::storage_before(const types::Address& address, const Hash32& slot) const {
    return before(*storage_.find_or_add(storage_key(address, slot)).first);
}

bool Overlay::is_storage_cleared(const types::Address& address) const { return touch(address).value.now.clearing != 0; }

Overlay::SlotRef Overlay::slot_ref(AccountRef account, const Hash32& slot) const {
    return {account.entry_, storage_.find_or_add(storage_key(account.entry_->key, slot)).first};
}

const Hash32& Overlay::before(Slots::Entry& entry) const {
    TouchedSlot& slot = entry.value;
    if (!slot.is_before_known) {
        slot.before = base_.storage(address_of(entry.key), slot_of(entry.key));
        slot.is_before_known = true;
    }
    return slot.before;
}

bool Overlay::has_storage(AccountRef account) const {
    const TouchedAccount& touched = account.entry_->value;
    if (touched.now.clearing == 0 && touched.before.storage_root != empty_.storage_root) return true;
    if (!touched.now.wrote_slots) return false;
    const BytesView address = account.entry_->key;
    return storage_.any_of([&](const Slots::Entry& entry) {
        const SlotState& slot = entry.value.now;
        return slot.changed && slot.clearing == touched.now.clearing && !slot.value.is_zero() &&
               equal(entry.key.view().first(types::Address::kSize), address);
    });
}

std::optional<Bytes> Overlay::native(BytesView key) const {
    if (meter_ != nullptr && meter_->is_exhausted()) return std::nullopt;
    const auto found = native_.find(key);
    auto value = found != native_.end() ? found->second : base_.native(key);
    if (meter_ != nullptr) meter_->read(value ? value->size() : 0);
    return value;
}

// What was erased here is passed over at a price too: a block may erase thousands of objects and walk over the place of
// them again and again. The base is asked for no more than is still wanted, so that nobody pays for a page in vain.
std::vector<std::pair<Bytes, Bytes>> Overlay::native_range(BytesView prefix, BytesView start, std::size_t limit) const {
    std::vector<std::pair<Bytes, Bytes>> merged;
    Bytes next = to_bytes(as_text(start) < as_text(prefix) ? prefix : start);  // of the base's
    auto change = native_.lower_bound(next);
    std::vector<std::pair<Bytes, Bytes>> below;
    std::size_t old = 0;
    bool more_below = true;
    const auto may_go_on = [&] { return merged.size() < limit && (meter_ == nullptr || !meter_->is_exhausted()); };
    while (may_go_on()) {
        if (old == below.size() && more_below) {
            std::size_t wanted = limit - merged.size();
            if (meter_ != nullptr) wanted = std::min(wanted, meter_->objects_left());
            below = base_.native_range(prefix, next, wanted);
            old = 0;
            more_below = below.size() == wanted;
            if (more_below) {
                next = below.back().first;
                next.push_back(0);
            }
        }
        const bool have_old = old < below.size();
        const bool have_change = change != native_.end() && as_text(change->first).starts_with(as_text(prefix));
        if (!have_old && !have_change) break;
        std::size_t bytes = 0;
        if (have_change && (!have_old || as_text(change->first) <= as_text(below[old].first))) {
            if (have_old && below[old].first == change->first) ++old;
            if (change->second) {
                bytes = change->second->size();
                merged.emplace_back(change->first, *change->second);
            }
            ++change;
        } else {
            bytes = below[old].second.size();
            merged.push_back(std::move(below[old++]));
        }
        if (meter_ != nullptr) meter_->read(bytes);
    }
    return merged;
}

Account& Overlay::change_account(const types::Address& address) { return change(touch(address)).account; }

Overlay::AccountState& Overlay::change(Accounts::Entry& entry) {
    AccountState& now = entry.value.now;
    if (!in_journal(now.journaled)) {
        old_accounts_.push_back({&entry, now});
        now.journaled = note(What::account);
    }
    if (now.changed && now.account.is_empty()) now.account = empty_;
    now.changed = true;
    now.erased = false;
    return now;
}

void Overlay::erase(AccountRef account) {
    AccountState& now = change(*account.entry_);
    now.account = empty_;
    now.erased = true;
    now.clearing = ++clearings_;
    now.wrote_slots = false;
}

void Overlay::clear_storage(AccountRef account) {
    AccountState& now = change(*account.entry_);
    now.account.storage_root = empty_.storage_root;
    now.clearing = ++clearings_;
    now.wrote_slots = false;
}

void Overlay::set_code(const Hash32& code_hash, Bytes code) {
    if (!code_.try_emplace(code_hash, std::move(code)).second) return;
    old_code_.push_back(code_hash);
    (void)note(What::code);
}

void Overlay::set_storage(const types::Address& address, const Hash32& slot, const Hash32& value) {
    set_value(slot_ref(account_ref(address), slot), value);
}

void Overlay::set_value(SlotRef slot, const Hash32& value) {
    SlotState& now = slot.slot_->value.now;
    if (!in_journal(now.journaled)) {
        old_slots_.push_back({slot.slot_, now});
        now.journaled = note(What::storage);
    }
    AccountState& account = slot.account_->value.now;
    now.changed = true;
    now.value = value;
    now.clearing = account.clearing;
    if (!value.is_zero()) account.wrote_slots = true;
}

void Overlay::set_native(Bytes key, Bytes value) { write_native(std::move(key), std::move(value)); }

void Overlay::erase_native(const Bytes& key) { write_native(key, std::nullopt); }

void Overlay::write_native(Bytes key, std::optional<Bytes> value) {
    const auto [entry, inserted] = native_.try_emplace(std::move(key));
    OldNative old{entry, std::nullopt};
    if (!inserted) old.value = std::move(entry->second);
    entry->second = std::move(value);
    old_natives_.push_back(std::move(old));
    (void)note(What::native);
}

void Overlay::add_log(types::Log log) {
    logs_.push_back(std::move(log));
    (void)note(What::log);
}

void Overlay::revert_to(std::size_t point) {
    ensure(point >= settled_, "what is settled cannot be reverted");
    for (; settled_ + journal_.size() > point; journal_.pop_back()) {
        switch (journal_.back()) {
            case What::account:
                old_accounts_.back().entry->value.now = old_accounts_.back().state;
                old_accounts_.pop_back();
                break;
            case What::storage:
                old_slots_.back().entry->value.now = old_slots_.back().state;
                old_slots_.pop_back();
                break;
            case What::code:
                code_.erase(old_code_.back());
                old_code_.pop_back();
                break;
            case What::native: {
                OldNative& old = old_natives_.back();
                if (old.value)
                    old.entry->second = std::move(*old.value);
                else
                    native_.erase(old.entry);
                old_natives_.pop_back();
                break;
            }
            case What::log:
                if (!logs_.empty()) logs_.pop_back();
                break;
        }
    }
    newest_point_ = settled_ + journal_.size();
}

void Overlay::settle() {
    newest_point_ = settled_ += journal_.size();
    journal_.clear();
    old_accounts_.clear();
    old_slots_.clear();
    old_code_.clear();
    old_natives_.clear();
}

Overlay::Written Overlay::written_since(std::size_t point) const {
    ensure(point >= settled_, "what was written since then is forgotten");
    const auto begin = journal_.begin() + static_cast<std::ptrdiff_t>(point - settled_);
    const auto entries = [&](What what) { return std::count(begin, journal_.end(), what); };
    Written written;
    std::set<std::string_view> keys;
    for (auto old = old_natives_.end() - entries(What::native); old != old_natives_.end(); ++old) {
        if (!keys.insert(as_text(old->entry->first)).second) continue;
        if (!old->entry->second) continue;
        const std::size_t size = old->entry->second->size();
        const auto before = old->value ? *old->value : base_.native(old->entry->first);
        const std::size_t size_before = before ? before->size() : 0;
        written.object_bytes += size;
        written.stored_bytes += size > size_before ? size - size_before : 0;
    }
    written.objects = keys.size();
    std::set<BytesView, BytesLess> accounts;
    for (auto old = old_accounts_.end() - entries(What::account); old != old_accounts_.end(); ++old)
        accounts.insert(old->entry->key);
    written.accounts = accounts.size();
    written.logs = static_cast<std::size_t>(entries(What::log));
    for (auto log = logs_.end() - entries(What::log); log != logs_.end(); ++log) {
        written.log_topics += log->topics.size();
        written.log_bytes += log->data.size();
    }
    return written;
}

std::vector<std::pair<types::Address, Account>> Overlay::changed_accounts() const {
    std::vector<std::pair<types::Address, Account>> changes;
    for (const auto* entry : accounts_.in_key_order([](const TouchedAccount& touched) { return touched.now.changed; }))
        changes.emplace_back(entry->key, entry->value.now.account);
    return changes;
}

std::vector<Overlay::StorageChange> Overlay::changed_storage() const {
    std::vector<StorageChange> changes;
    for (const auto* entry : storage_.in_key_order([](const TouchedSlot& touched) { return touched.now.changed; })) {
        const types::Address address = address_of(entry->key);
        if (touch(address).value.now.clearing == entry->value.now.clearing)
            changes.push_back({address, slot_of(entry->key), entry->value.now.value});
    }
    return changes;
}

std::vector<types::Log> Overlay::take_logs() { return std::exchange(logs_, {}); }

}  // namespace quern::chain::state
