// dlsym and dlvsym for AArch64, as tail jumps. glibc reads the caller from the link register (RTLD_NEXT and RTLD_DEFAULT
// depend on it), so the real function must be branched to with x30 and the stack as the program left them.
// Runs on every thread, also while the loader initialises libraries. Only names that begin with "cu", "dl" or "In" meet C++
// code: lookup.cpp decides, and either has the whole answer or says "branch on".

// x0: handle, x1: name, x2: version (dlvsym only).
.macro LOOKUP name, next, answer
  .globl \name
  .type \name, %function
  .p2align 4
\name:
  .cfi_startproc
  hint #34                                         // bti c
  cbz x1, 1f
  ldrb w16, [x1]
  cmp w16, #'c'
  b.eq 5f
  cmp w16, #'d'
  b.eq 6f
  cmp w16, #'I'
  b.eq 7f
1:
  adrp x16, \next
  ldr x16, [x16, #:lo12:\next]
  cbz x16, 2f
  br x16
2:                                                 // a constructor that runs before ours
  stp x29, x30, [sp, #-48]!
  .cfi_def_cfa_offset 48
  .cfi_offset 29, -48
  .cfi_offset 30, -40
  mov x29, sp
  stp x0, x1, [sp, #16]
  str x2, [sp, #32]
  bl gpumem_find_next_lookup
  ldr x2, [sp, #32]
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #48
  .cfi_restore 30
  .cfi_restore 29
  .cfi_def_cfa_offset 0
  b 1b
3:
  stp x29, x30, [sp, #-48]!
  .cfi_def_cfa_offset 48
  .cfi_offset 29, -48
  .cfi_offset 30, -40
  mov x29, sp
  stp x0, x1, [sp, #16]
  str x2, [sp, #32]
  mov x3, x30                                      // the program's return address
  bl \answer                                       // x0: answer, x1: whether it is the answer
  cbnz x1, 4f
  ldr x2, [sp, #32]
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #48
  .cfi_remember_state
  .cfi_restore 30
  .cfi_restore 29
  .cfi_def_cfa_offset 0
  b 1b
4:
  .cfi_restore_state
  ldp x29, x30, [sp], #48
  .cfi_restore 30
  .cfi_restore 29
  .cfi_def_cfa_offset 0
  ret
5:
  ldrb w16, [x1, #1]
  cmp w16, #'u'
  b.eq 3b
  b 1b
6:
  ldrb w16, [x1, #1]
  cmp w16, #'l'
  b.eq 3b
  b 1b
7:
  ldrb w16, [x1, #1]
  cmp w16, #'n'
  b.eq 3b
  b 1b
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

  .section .note.GNU-stack, "", %progbits

  // Says that every indirect branch target in this object is marked (BTI).
  .section .note.gnu.property, "a", %note
  .p2align 3
  .long 4, 16, 5
  .asciz "GNU"
  .long 0xc0000000, 4, 1, 0
