// A section for the few variables and names that are touched at the start or end of every process, with CUDA
// or without: they lie in a page that the loader has written already, instead of in further pages of zeros
// and constants.
#pragma once

#define GPUMEM_AT_START [[gnu::section(".data")]]
