// Reaches a private member by name, for tests that break an invariant by hand: nothing public can.
//
// The language lets an explicit instantiation name what is private; nothing of the class under test
// changes. At namespace scope, in a namespace without a name:
//
//   LEVEE_PRIVATE_MEMBER(total_of, RunIndex, total_)
//   ...
//   ++total_of(index);
#pragma once

#define LEVEE_PRIVATE_MEMBER(name, Class, member)         \
  struct name##_tag {                                     \
    friend auto member_of(name##_tag);                    \
  };                                                      \
  template <auto kMember>                                 \
  struct name##_opener {                                  \
    friend auto member_of(name##_tag) { return kMember; } \
  };                                                      \
  template struct name##_opener<&Class::member>;          \
  template <typename Object>                              \
  auto& name(Object& object) {                            \
    return object.*member_of(name##_tag{});               \
  }
