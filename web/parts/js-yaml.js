// The page uses only these functions of the library, and esbuild leaves out the others. The bundle takes its name from this file.
export { dump, load } from 'js-yaml';
