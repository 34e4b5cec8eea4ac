// What the page uses of the library; esbuild leaves the rest out. The file has the name that the page's file has.
export { dump, load } from 'js-yaml';
