// dlsym and dlvsym for x86-64, as tail jumps. glibc reads the caller from the return address (RTLD_NEXT and RTLD_DEFAULT
// depend on it), so the real function must be jumped to, with the stack as the program left it, and never called.
// Runs on every thread, also while the loader initialises libraries. Only names that begin with "cu", "dl" or "In" meet C++
// code: lookup.cpp decides, and either has the whole answer or says "jump on".

// rdi: handle, rsi: name, rdx: version (dlvsym only).
.macro LOOKUP name, next, answer
  .globl \name
  .type \name, @function
  .p2align 4
\name:
  .cfi_startproc
  endbr64
  testq %rsi, %rsi
  je 1f
  cmpb $'c', (%rsi)
  je 4f
  cmpb $'d', (%rsi)
  je 5f
  cmpb $'I', (%rsi)
  je 6f
1:
  movq \next(%rip), %r11
  testq %r11, %r11
  je 2f
  jmp *%r11
2:                                                 // a constructor that runs before ours
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  call gpumem_find_next_lookup
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  movq \next(%rip), %r11
  jmp *%r11
3:
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  movq 24(%rsp), %rcx                              // the program's return address
  call \answer                                     // rax: answer, rdx: whether it is the answer
  testq %rdx, %rdx
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  je 1b
  ret
4:
  cmpb $'u', 1(%rsi)
  je 3b
  jmp 1b
5:
  cmpb $'l', 1(%rsi)
  je 3b
  jmp 1b
6:
  cmpb $'n', 1(%rsi)
  je 3b
  jmp 1b
  .cfi_endproc
  .size \name, .-\name
.endm

  .hidden gpumem_next_dlsym
  .hidden gpumem_next_dlvsym
  .hidden gpumem_find_next_lookup
  .hidden gpumem_answer_dlsym
  .hidden gpumem_answer_dlvsym

  .text
  LOOKUP dlsym, gpumem_next_dlsym, gpumem_answer_dlsym
  LOOKUP dlvsym, gpumem_next_dlvsym, gpumem_answer_dlvsym

  .section .note.GNU-stack, "", @progbits

  // Says that this object may run under indirect-branch tracking and a shadow stack.
  .section .note.gnu.property, "a", @note
  .p2align 3
  .long 4, 16, 5
  .asciz "GNU"
  .long 0xc0000002, 4, 3, 0
