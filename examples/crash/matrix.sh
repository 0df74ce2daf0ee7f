# A crash test for each mount option, and a table of what was found.
cd "$(dirname "$0")"
for options in data=ordered data=writeback data=journal data=writeback,noauto_da_alloc nobarrier; do
  sed "s/data=ordered/$options/" options.toml >"options-$options.toml"
  stasis crash-test "options-$options.toml" --states 40 --results "crash-results/$options" \
    --junit "crash-results-$options.xml" --quiet >/dev/null 2>&1
  case $? in 0) echo "$options: nothing lost" ;; 1) echo "$options: something lost" ;; *) exit 2 ;; esac
done
