# bash completion for spindle. Options and words are those of --help; a test holds the two together.

# _spindle_list WORDS CURRENT: the last of the words between commas.
_spindle_list() {
  local before=
  [[ $2 == *,* ]] && before=${2%,*},
  compopt -o nospace 2>/dev/null
  COMPREPLY=($(compgen -P "$before" -W "$1" -- "${2##*,}"))
}

_spindle() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=
  COMPREPLY=()
  # bash cuts words at "=" and ":".
  case $current in '='|':') previous=$current current= ;; esac
  if [ "$previous" = '=' ] && [ "$COMP_CWORD" -ge 2 ]; then
    previous=${COMP_WORDS[COMP_CWORD-1]}
    [ "$previous" = '=' ] && previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  local layouts='single concat stripe mirror raid10 raid10-far raid10-offset raid01 raid4 raid5 raid6 raid50 raid60
    parity1 parity2 parity3 pool:stripe pool:mirror'
  local tests='write rewrite read reread randread randwrite randread-128k randwrite-128k randread-8k randwrite-8k'
  local presets='dd iozone bonnie vm database nfs quick'

  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W 'compare survey bench array create destroy list status get set inherit snapshot rollback clone rename volume
      scrub check dump import export hold iostat history report models --help --version' -- "$current"))
    return
  fi
  case $previous in
    --layouts) _spindle_list "$layouts" "$current"; return ;;
    --tests) _spindle_list "$tests" "$current"; return ;;
    --test|--bars) COMPREPLY=($(compgen -W "$tests" -- "$current")); return ;;
    --preset) COMPREPLY=($(compgen -W "$presets" -- "$current")); return ;;
    --rw) COMPREPLY=($(compgen -W 'read write randread randwrite rw randrw' -- "$current")); return ;;
    --clock) COMPREPLY=($(compgen -W 'real virtual both' -- "$current")); return ;;
    --like) COMPREPLY=($(compgen -W 'svm vxvm vinum md lvm' -- "$current")); return ;;
    --write-hole) COMPREPLY=($(compgen -W 'log bitmap' -- "$current")); return ;;
    --rotation)
      COMPREPLY=($(compgen -W 'left-symmetric left-asymmetric right-symmetric right-asymmetric' -- "$current"))
      return ;;
    --payload) COMPREPLY=($(compgen -W 'random zero ratio:2 text' -- "$current")); return ;;
    --link) COMPREPLY=($(compgen -W '1GbE 10GbE 2GFC 4GFC' -- "$current")); return ;;
    --model)
      compopt -o nospace 2>/dev/null
      COMPREPLY=($(compgen -S : -W "$(spindle models 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$current"))
      return ;;
  esac
  case $verb in
    create) words='mirror parity1 parity2 parity3 raidz raidz2 raidz3 --dry-run --force --destroy --property --volume --sparse
        --volblocksize --disks --help' ;;
    destroy) words='--disks --recursive --force --help' ;;
    list) words='--disks --type --scripted --parsable --columns --recursive --json --help' ;;
    get) words='all --disks --scripted --parsable --columns --json --help' ;;
    status) words='--disks --verbose --troubled --json --help' ;;
    iostat) words='--disks --verbose --scripted --parsable --help' ;;
    import) words='--disks --property --rewind --force --json --help' ;;
    hold) words='--disks --cache --help' ;;
    volume) words='read write discard --disks --offset --length --cache --help' ;;
    check) words='--disks --data --json --help' ;;
    dump) words='labels uberblocks log runs catalog trees all --help' ;;
    snapshot|rollback) words='--disks --recursive --help' ;;
    rename|clone|set|inherit|history|scrub|export) words='--disks --help' ;;
    compare)
      words='--model --clock --full --layouts --stacks --tests --preset --size --chunk --budget --cpu --cpus --seed --price
        --link --rig --destroy --yes --dry-run --out --json --fio-json --csv --markdown --help' ;;
    survey)
      words='--write --destroy --time --burn-in --model --clock --seed --json --help' ;;
    bench)
      if [ "$previous" = ':' ]; then
        COMPREPLY=($(compgen -W "$layouts" -- "$current"))
        return
      fi
      [ "$current" = array ] && compopt -o nospace 2>/dev/null
      words='null: cpu: array: pool: --preset --test --rw --bs --depth --jobs --read-percent --fsync --size --time --payload --repeats --seed --record --cache
        --model --chunk --rotation --write-hole --buffered --limit --link --destroy --clock --cpus --json --csv --markdown --fio-json
        --quiet --help' ;;
    report)
      words='--json --fio-json --csv --markdown --bars --clock --rig --force --help' ;;
    models)
      words='--json --sources --help' ;;
    array)
      if [ "$COMP_CWORD" -eq 2 ]; then
        words='create status read write check replace attach detach destroy --help'
      else
        case ${COMP_WORDS[2]} in
          create)
            words='--chunk --rotation --write-hole --log --like --destroy --dry-run --force --help'
            [ "$COMP_CWORD" -eq 4 ] && words="$words $layouts" ;;
          status) words='--disks --json --help' ;;
          read|write) words='--disks --offset --length --help' ;;
          check) words='--disks --repair --json --help' ;;
          replace|attach) words='--disks --destroy --help' ;;
          *) words='--disks --help' ;;
        esac
        if [ "$COMP_CWORD" -eq 3 ] && [ "${COMP_WORDS[2]}" != create ]; then
          words="$words $(spindle array status 2>/dev/null | sed -nE 's/^([A-Za-z0-9_.-]+): .*/\1/p')"
        fi
      fi ;;
  esac
  case $verb in
    destroy|list|status|iostat|export|hold|scrub|check|history|rename|clone|set|inherit|snapshot|rollback|volume|get)
      words="$words $(spindle list -H -o name 2>/dev/null)" ;;
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$(printf '%s\n' $words | grep -v '^-')" -- "$current") $(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _spindle spindle
