// What is damaged: good files of each kind, made on the spot or found in the tree.
#pragma once

#include <string>
#include <vector>

namespace gpumem::tests {

std::string contents(std::string const& path);
void write(std::string const& path, std::string const& text);

// A state page with everything in it, in `folder`; its path. Made by a child: a process opens its page once.
std::string make_page(std::string const& folder);
// The JSON report of a page.
std::string json_of(std::string const& page);
// Every configuration of the tree.
std::vector<std::string> configurations();

}  // namespace gpumem::tests
