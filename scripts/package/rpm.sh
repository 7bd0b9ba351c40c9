#!/usr/bin/env bash
# Makes the RPM of an installed tree: rpm.sh TREE VERSION MACHINE OUT MAINTAINER. Called by package.sh, which sets SOURCE_DATE_EPOCH: the
# same bytes for the same time. Everything is built and stripped already, so rpmbuild's own steps for that are off. Nothing
# runs at installation, so nothing is left after removal.
set -euo pipefail
tree="$1" version="$2" machine="$3" out="$4" maintainer="$5"
root="$(cd "$(dirname "$0")/../.." && pwd)"

top="$(mktemp -d)"
trap 'rm -rf "$top"' EXIT
cp -a "$tree" "$top/tree"
gzip -9n "$top"/tree/usr/share/man/man1/*.1
cat >"$top/gpumem.spec" <<TEXT
Name: gpumem
Version: $version
Release: 1
Summary: RAPIDS RMM's memory resources for unmodified CUDA programs
License: Apache-2.0 AND MIT AND BSD-3-Clause
Packager: $maintainer
Group: Development/Tools
Requires: glibc >= 2.28
AutoReqProv: no

%description
A library to be preloaded that serves the device memory of unmodified CUDA
programs by a pool, fixed-size blocks, binning and more, chained as a TOML
file says, and reports at exit what the program did with it. The program
gpumem runs programs under it, checks configurations and shows reports.

%install
cp -a $top/tree/. %{buildroot}
find %{buildroot} -exec touch -h -d @$SOURCE_DATE_EPOCH {} +

%files
%attr(755,root,root) /usr/bin/gpumem
%dir /usr/lib/gpumem
%attr(755,root,root) /usr/lib/gpumem/libgpumem.so
/usr/share/gpumem
%dir /usr/share/doc/gpumem
%doc /usr/share/doc/gpumem/*.md
%license /usr/share/doc/gpumem/LICENSE
%license /usr/share/doc/gpumem/copyright
/usr/share/man/man1/gpumem*.1.gz
%dir /usr/share/bash-completion
%dir /usr/share/bash-completion/completions
%dir /usr/share/zsh
%dir /usr/share/zsh/site-functions
%dir /usr/share/fish
%dir /usr/share/fish/vendor_completions.d
/usr/share/bash-completion/completions/gpumem
/usr/share/zsh/site-functions/_gpumem
/usr/share/fish/vendor_completions.d/gpumem.fish

%changelog
* $(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y') $maintainer - $version-1
$(awk -v version="## $version" '$0 == version { inside = 1; next } /^## / { inside = 0 } inside && NF' "$root/CHANGELOG.md" | sed 's/%/%%/g')
TEXT
rpmbuild -bb --target "$machine" --quiet --define "_topdir $top" --define "_rpmdir $out" \
  --define "_rpmfilename gpumem-%{version}-%{release}.%{arch}.rpm" --define "_buildhost reproducible" \
  --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
  --define "_build_id_links none" --define "debug_package %{nil}" --define "__os_install_post %{nil}" \
  --define "_binary_payload w9.gzdio" "$top/gpumem.spec"
