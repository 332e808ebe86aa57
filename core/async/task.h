// Task<T>: a lazily started coroutine that exactly one other coroutine awaits. spawn() starts a
// Task that no coroutine awaits.
//
// Smaller than asio::awaitable: symmetric transfer, no executor, frames from a per-thread free list
// (0.4–1 µs less per request in the prototype). Single-threaded: resume a Task only on the thread
// of the loop that started it. An exception is rethrown in the awaiting coroutine; spawn() passes
// it to `done`.
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "core/async/request_trace.h"

namespace freshet {

namespace detail {

// Free lists of coroutine frames by size class (64 bytes). Frames above 4 KiB come from the heap.
class FrameCache {
 public:
  static void* allocate(std::size_t bytes) {
    const std::size_t size_class = (bytes + 63) / 64;
    if (size_class < kClasses) {
      if (FreeNode* head = heads()[size_class]) {
        heads()[size_class] = head->next;
        return head;
      }
    }
    return ::operator new(size_class * 64);
  }
  static void release(void* frame, std::size_t bytes) noexcept {
    const std::size_t size_class = (bytes + 63) / 64;
    if (size_class >= kClasses) return ::operator delete(frame);
    auto* node = new (frame) FreeNode{heads()[size_class]};
    heads()[size_class] = node;
  }

 private:
  struct FreeNode {
    FreeNode* next;
  };
  static constexpr std::size_t kClasses = 65;
  struct Lists {
    std::array<FreeNode*, kClasses> heads{};
    ~Lists() {
      for (FreeNode* head : heads) {
        while (head != nullptr) ::operator delete(std::exchange(head, head->next));
      }
    }
  };
  static std::array<FreeNode*, kClasses>& heads() {
    static thread_local Lists lists;
    return lists.heads;
  }
};

struct PooledFrame {
  static void* operator new(std::size_t bytes) { return FrameCache::allocate(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { FrameCache::release(frame, bytes); }
};

struct TaskPromiseBase : PooledFrame {
  std::coroutine_handle<> continuation;
  std::exception_ptr exception;
  // the trace of the request it works for; inherited from the awaiting coroutine
  RequestTrace* trace = nullptr;

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) noexcept {
      return self.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }
  void rethrow() {
    if (exception) std::rethrow_exception(exception);
  }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    rethrow();
    return std::move(*value);
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  void return_void() noexcept {}
  void take() { rethrow(); }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type : detail::TaskPromise<T> {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
  };
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> caller) noexcept {
    handle_.promise().continuation = caller;
    if (RequestTrace* trace = trace_of(caller)) handle_.promise().trace = trace;
    return handle_;
  }
  // Call before starting the task: it and everything it awaits report to `trace`, which must
  // outlive it.
  void set_trace(RequestTrace& trace) { handle_.promise().trace = &trace; }
  T await_resume() { return handle_.promise().take(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

namespace detail {
struct Detached {
  struct promise_type : PooledFrame {
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};
}  // namespace detail

// Starts `task` and runs it to its first suspension. When it has finished, calls
// `done(exception_ptr)`, with null if it did not throw.
template <class Done>
void spawn(Task<void> task, Done done) {
  [](Task<void> inner, Done finished) -> detail::Detached {
    std::exception_ptr thrown;
    try {
      co_await inner;
    } catch (...) {
      thrown = std::current_exception();
    }
    finished(thrown);
  }(std::move(task), std::move(done));
}

// Suspends one coroutine until fire() is called with a value. fire() resumes it immediately, on the
// caller's stack. Fire at most once per wait.
template <class T>
class AsyncEvent {
 public:
  void fire(T value) {
    value_.emplace(std::move(value));
    if (auto waiter = std::exchange(waiter_, {})) waiter.resume();
  }
  bool has_waiter() const { return static_cast<bool>(waiter_); }
  auto wait() {
    struct Awaiter {
      AsyncEvent& event;
      bool await_ready() const noexcept { return event.value_.has_value(); }
      void await_suspend(std::coroutine_handle<> caller) noexcept { event.waiter_ = caller; }
      T await_resume() {
        T value = std::move(*event.value_);
        event.value_.reset();
        return value;
      }
    };
    return Awaiter{*this};
  }

 private:
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

}  // namespace freshet
