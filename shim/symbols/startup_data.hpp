// For the few variables that are touched at the start or the end of every process, with CUDA or without: in
// the page that the loader has written already, instead of two pages of zeros that would be made for them.
#pragma once

#define GPUMEM_AT_START [[gnu::section(".data")]]
