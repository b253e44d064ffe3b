// Command packaging builds what a release consists of, with Go and xz: binaries,
// manual pages and completions, .deb and .rpm for amd64 and arm64, an image for
// containers, a list of what each binary is made of and under which licences, and the
// checksums of all of it. Run it by 'make package', in the root of the repository;
// 'make image' builds the image alone.
//
// Two builds of one commit are the same, byte by byte: the time in them is the
// commit's (or SOURCE_DATE_EPOCH), the version is the binary's own, of the newest
// release in CHANGELOG.md and the commit, and nothing else is taken from the
// machine but its Go and its xz.
//
// Next to the program is what it packs: units and other files of the host in
// files/, the scripts that the package managers run in deb/ and rpm/, and
// nfpm.yaml, import.yaml and tooz.yaml, which say where each goes.
package main
